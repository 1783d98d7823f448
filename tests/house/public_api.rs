//! The public API, as a text in the repository, so that every change of it is seen in review.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::sources::files;
use expect_test::expect_file;
use syn::{
    Attribute, Block, Fields, File, GenericArgument, ImplItem, Item, ItemImpl, ItemUse,
    Path as SynPath, PathArguments, TraitItem, Type, UseTree, Visibility, parse_quote,
};

#[test]
fn public_api_is_the_recorded_one() {
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("lock-runtime/src"));
    expect_file!["public_api.txt"].assert_eq(&sources.public_api());
}

/// The files of the crate, by module path.
struct Sources(BTreeMap<String, File>);

/// An item that the crate exports: its module, its name, the path to it, and the attributes of the export.
struct Export {
    module: String,
    name: String,
    path: String,
    attributes: Vec<Attribute>,
}

impl Sources {
    fn read(root: &Path) -> Self {
        let module = |file: &PathBuf| {
            let path = file.strip_prefix(root).unwrap().with_extension("");
            let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
            let parts = parts.strip_suffix(&["mod"]).unwrap_or(&parts);
            parts.join("::")
        };
        let files = files(root).into_iter();
        let parsed = files.map(|file| {
            let source = fs::read_to_string(&file).unwrap();
            (module(&file), syn::parse_file(&source).unwrap())
        });
        Self(
            parsed
                .filter(|(module, _)| !module.contains("tests"))
                .collect(),
        )
    }

    fn public_api(&self) -> String {
        let mut text = String::new();
        for export in self.exports() {
            let items = match self.0.get(&format!("{}::{}", export.module, export.name)) {
                Some(module) => module.items.iter().filter_map(outline).collect(),
                None => self.item(&export),
            };
            let root = match export.module.starts_with("lock_macros") {
                true => "lock_macros",
                false => "lock_runtime",
            };
            let cfgs = export.attributes.iter();
            let conditions = cfgs.map(|cfg| quote(&cfg.meta.require_list().unwrap().tokens));
            let conditions: String = conditions.map(|only| format!(", with {only}")).collect();
            text += &format!("// {root}::{}{conditions}\n", export.path);
            text += &prettyplease::unparse(&File {
                shebang: None,
                frontmatter: None,
                attrs: Vec::new(),
                items,
            });
            text.push('\n');
        }
        // Whether a method changes its own copy is its own affair.
        text.replace("(mut self", "(self")
            .replace("  mut self", "  self")
    }

    /// Returns the exports in `lib.rs`, but for those that are hidden.
    fn exports(&self) -> Vec<Export> {
        let mut exports = Vec::new();
        for item in &self.0["lib"].items {
            let Item::Use(ItemUse {
                vis, tree, attrs, ..
            }) = item
            else {
                continue;
            };
            let hidden = attrs.iter().any(|attr| quote(attr).contains("hidden"));
            if matches!(vis, Visibility::Public(_)) && !hidden {
                let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
                let cfgs: Vec<_> = cfgs.cloned().collect();
                collect(tree, "", &cfgs, &mut exports);
            }
        }
        let of_modules = exports.iter().flat_map(|export| self.exports_of(export));
        let of_modules: Vec<_> = of_modules.collect();
        exports.extend(of_modules);
        exports.sort_by(|a, b| a.path.cmp(&b.path));
        exports
    }

    /// Returns what an exported module exports in turn.
    fn exports_of(&self, module: &Export) -> Vec<Export> {
        let items = self.0.get(&format!("{}::{}", module.module, module.name));
        let mut exports = Vec::new();
        for item in items.into_iter().flat_map(|file| &file.items) {
            if let Item::Use(ItemUse { vis, tree, .. }) = item
                && matches!(vis, Visibility::Public(_))
            {
                collect(tree, "", &module.attributes, &mut exports);
            }
        }
        for export in &mut exports {
            export.path = format!("{}::{}", module.name, export.name);
        }
        exports
    }

    /// Returns the outline of an exported item and of all that is implemented for it.
    fn item(&self, export: &Export) -> Vec<Item> {
        let defined = self.0.get(&export.module).into_iter();
        let mut items: Vec<_> = defined
            .flat_map(|file| &file.items)
            .filter(|item| name_of(item).is_some_and(|name| name == export.name))
            .filter_map(outline)
            .collect();
        let all = self.0.values().flat_map(|file| &file.items);
        let mut implemented: Vec<_> = all
            .filter_map(|item| match item {
                Item::Impl(item) if concerns(item, &export.name) => outline_of_impl(item),
                _ => None,
            })
            .map(Item::Impl)
            .collect();
        implemented.sort_by_key(quote);
        items.extend(implemented);
        items
    }
}

fn collect(tree: &UseTree, module: &str, attributes: &[Attribute], exports: &mut Vec<Export>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let module = match module {
                "" | "crate" => name,
                module => format!("{module}::{name}"),
            };
            collect(&path.tree, &module, attributes, exports);
        }
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.for_each(|tree| collect(tree, module, attributes, exports));
        }
        UseTree::Name(name) => exports.push(Export {
            module: module.to_owned(),
            name: name.ident.to_string(),
            path: name.ident.to_string(),
            attributes: attributes.to_vec(),
        }),
        other => panic!("an export that this test cannot read: {}", quote(other)),
    }
}

fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        _ => None,
    }
}

/// Returns the item without its documentation, its bodies and its private parts; `None` if it is private.
fn outline(item: &Item) -> Option<Item> {
    let mut item = item.clone();
    let public = match &mut item {
        Item::Struct(item) => {
            keep_contract(&mut item.attrs);
            if !matches!(item.fields, Fields::Unit) {
                item.fields = Fields::Unit;
                item.semi_token = Some(parse_quote!(;));
            }
            &item.vis
        }
        Item::Enum(item) => {
            keep_contract(&mut item.attrs);
            for variant in &mut item.variants {
                keep_contract(&mut variant.attrs);
                let fields = variant.fields.iter_mut();
                fields.for_each(|field| keep_contract(&mut field.attrs));
            }
            &item.vis
        }
        Item::Trait(item) => {
            keep_contract(&mut item.attrs);
            for part in &mut item.items {
                if let TraitItem::Fn(function) = part {
                    keep_contract(&mut function.attrs);
                }
            }
            &item.vis
        }
        Item::Fn(item) => {
            keep_contract(&mut item.attrs);
            *item.block = nothing();
            &item.vis
        }
        _ => return None,
    };
    matches!(public, Visibility::Public(_)).then_some(item)
}

/// Returns `true` if that item is the trait, the type, or what the trait converts from, as in
/// `From<LockError>`.
fn concerns(item: &ItemImpl, name: &str) -> bool {
    let is_named = |path: &SynPath| path.segments.last().is_some_and(|last| last.ident == name);
    let is_type = |ty: &Type| matches!(ty, Type::Path(ty) if is_named(&ty.path));
    let is_argument = |path: &SynPath| match &path.segments.last().unwrap().arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .any(|argument| matches!(argument, GenericArgument::Type(ty) if is_type(ty))),
        _ => false,
    };
    let of_trait = item.trait_.as_ref();
    of_trait.is_some_and(|(path, _)| is_named(path) || is_argument(path)) || is_type(&item.self_ty)
}

/// Returns the public parts of an `impl`; `None` if there are none.
fn outline_of_impl(item: &ItemImpl) -> Option<ItemImpl> {
    let is_test = |attr: &Attribute| attr.path().is_ident("cfg") && quote(attr).contains("test");
    if item.attrs.iter().any(is_test) {
        return None;
    }
    let mut item = item.clone();
    keep_contract(&mut item.attrs);
    let of_trait = item.trait_.is_some();
    item.items.retain_mut(|part| match part {
        ImplItem::Fn(function) if !of_trait && matches!(function.vis, Visibility::Public(_)) => {
            let is_test = function.attrs.iter().any(is_test);
            keep_contract(&mut function.attrs);
            function.block = nothing();
            !is_test
        }
        ImplItem::Type(_) => true,
        _ => false,
    });
    (of_trait || !item.items.is_empty()).then_some(item)
}

fn nothing() -> Block {
    parse_quote!({})
}

/// Keeps the attributes that users can notice.
fn keep_contract(attributes: &mut Vec<Attribute>) {
    let names = ["cfg", "derive", "deprecated", "must_use", "non_exhaustive"];
    attributes.retain(|attr| names.iter().any(|name| attr.path().is_ident(name)));
}

fn quote(tokens: &impl quote::ToTokens) -> String {
    tokens.to_token_stream().to_string()
}
