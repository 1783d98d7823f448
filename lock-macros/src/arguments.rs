//! What the body owns: its arguments, as in any function.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{PatIdent, Receiver, Signature};

/// Returns the names that a function's signature binds to values.
pub(crate) fn names(signature: &Signature) -> Vec<Ident> {
    struct Collect(Vec<Ident>);
    impl VisitMut for Collect {
        fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
            self.0.push(Ident::new("self", receiver.self_token.span));
        }

        fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
            self.0.push(pattern.ident.clone());
            visit_mut::visit_pat_ident_mut(self, pattern);
        }
    }
    let mut names = Collect(Vec::new());
    names.visit_signature_mut(&mut signature.clone());
    names.0
}

/// Makes the block of the body own an argument, as a function does, and drop all of them in the same order. Without that it
/// would have copies of their fields, where it uses nothing else of them.
pub(crate) struct Own<'a> {
    pub(crate) body: &'a TokenStream,
    pub(crate) is_used: &'a dyn Fn(&Ident) -> bool,
    pub(crate) owned: TokenStream,
    /// The body's variable is mutable, and that of the signature need not be.
    pub(crate) is_mutable: bool,
}

impl VisitMut for Own<'_> {
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        let name = Ident::new("self", receiver.self_token.span);
        if (self.is_used)(&name) {
            self.owned.extend(capture(&name));
        }
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        let name = &pattern.ident;
        if (self.is_used)(name) {
            let in_body = mentions(self.body, name);
            let lints = (!in_body).then(|| quote!(#[allow(unused_variables)]));
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
