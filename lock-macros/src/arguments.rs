//! What the body owns: its arguments, as in any function.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FnArg, Pat, PatIdent, PatRest, PatWild, Receiver, Signature, parse_quote};

/// Returns the names that a function's signature binds to values.
pub(crate) fn names(signature: &Signature) -> Vec<Ident> {
    let mut found = Parts::default();
    found.visit_signature_mut(&mut signature.clone());
    found.names
}

/// What patterns do with the parts of their values.
#[derive(Default)]
struct Parts {
    names: Vec<Ident>,
    /// A part has no name, or only a reference has one.
    are_left: bool,
}

impl VisitMut for Parts {
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        self.names
            .push(Ident::new("self", receiver.self_token.span));
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        self.names.push(pattern.ident.clone());
        self.are_left |= pattern.by_ref.is_some();
        visit_mut::visit_pat_ident_mut(self, pattern);
    }

    fn visit_pat_wild_mut(&mut self, _: &mut PatWild) {
        self.are_left = true;
    }

    fn visit_pat_rest_mut(&mut self, _: &mut PatRest) {
        self.are_left = true;
    }
}

/// Makes the block of the body own the arguments, as a function does, and drop all of them in the same order.
/// Without that it would have copies of their fields, where it uses nothing else of them.
pub(crate) struct Own<'a> {
    pub(crate) body: &'a TokenStream,
    /// The arguments of the attribute.
    pub(crate) given: &'a TokenStream,
    /// Of them, what must outlive the body, with all that it names.
    pub(crate) or_else: &'a TokenStream,
    /// Those of the function.
    pub(crate) attributes: &'a [Attribute],
}

/// Attributes that look at no argument. Others may name what patterns bind, or want to show each argument.
const BLIND: [&str; 8] = [
    "allow",
    "deny",
    "deprecated",
    "doc",
    "expect",
    "inline",
    "must_use",
    "warn",
];

impl Own<'_> {
    /// Returns the statement that makes the block own the argument of that number.
    pub(crate) fn argument(&self, number: usize, input: &mut FnArg) -> TokenStream {
        let mut parts = Parts::default();
        parts.visit_fn_arg_mut(input);
        if let FnArg::Typed(argument) = input
            && parts.are_left
            && self.attributes.iter().all(is_blind)
            && !parts.names.iter().any(|name| mentions(self.given, name))
        {
            // As a whole, since it has parts without a name.
            let whole = Ident::new(&format!("argument_{number}"), Span::mixed_site());
            let pattern = std::mem::replace(&mut *argument.pat, parse_quote!(#whole));
            let taken_apart = (!matches!(pattern, Pat::Wild(_)))
                .then(|| quote_spanned!(Span::mixed_site()=> let #pattern = #whole;));
            return quote_spanned!(Span::mixed_site()=> let #whole = #whole; #taken_apart);
        }
        let mut binds = Binds {
            own: self,
            owned: TokenStream::new(),
            is_mutable: false,
        };
        binds.visit_fn_arg_mut(input);
        let Binds {
            owned, is_mutable, ..
        } = binds;
        if let (FnArg::Typed(input), true) = (input, is_mutable) {
            input.attrs.push(parse_quote!(#[allow(unused_mut)]));
        }
        owned
    }
}

fn is_blind(attribute: &Attribute) -> bool {
    BLIND.iter().any(|name| attribute.path().is_ident(name))
}

/// Binds each name of an argument anew.
struct Binds<'a> {
    own: &'a Own<'a>,
    owned: TokenStream,
    /// The body's variable is mutable, and that of the signature need not be.
    is_mutable: bool,
}

impl VisitMut for Binds<'_> {
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        let name = Ident::new("self", receiver.self_token.span);
        if !mentions(self.own.or_else, &name) {
            self.owned.extend(capture(&name));
        }
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        let Own {
            body,
            given,
            or_else,
            ..
        } = self.own;
        let name = &pattern.ident;
        if !mentions(or_else, name) {
            let in_body = mentions(body, name);
            // If nothing uses it, the compiler says so.
            let lints =
                (!in_body && mentions(given, name)).then(|| quote!(#[allow(unused_variables)]));
            let mutability = pattern
                .mutability
                .filter(|_| in_body && pattern.by_ref.is_none());
            self.is_mutable |= mutability.is_some();
            let own = quote_spanned!(Span::mixed_site()=> #lints let #mutability #name = #name;);
            self.owned.extend(own);
        }
        visit_mut::visit_pat_ident_mut(self, pattern);
    }
}

/// Returns a statement for which a block captures all of an argument.
pub(crate) fn capture(name: &Ident) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)] let _ = &#name;)
}

/// Returns `true` if the tokens contain that name, be it within a string.
pub(crate) fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Literal(literal) => literal.to_string().contains(&name.to_string()),
        TokenTree::Punct(_) => false,
    })
}
