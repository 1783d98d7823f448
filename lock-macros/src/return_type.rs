//! The type of a body's value, as written in the signature.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{AssocType, GenericArgument, PathArguments, PathSegment, Signature, Type, parse_quote};

pub(crate) struct ReturnType {
    /// `None` if the signature does not name it.
    ty: Option<Type>,
    /// The span of the error for a type that does not implement `FromLockError`.
    pub(crate) span: Span,
}

impl ReturnType {
    /// Returns `R` of `async fn … -> R`.
    pub(crate) fn from_async_fn(signature: &Signature) -> Self {
        match &signature.output {
            syn::ReturnType::Type(_, ty) => Self::new((**ty).clone()),
            syn::ReturnType::Default => Self {
                ty: Some(parse_quote!(())),
                span: signature.ident.span(),
            },
        }
    }

    /// Returns `R` of `fn … -> Pin<Box<dyn Future<Output = R>>>`, `impl Future<Output = R>` or
    /// `BoxFuture<'_, R>`.
    pub(crate) fn from_future_fn(signature: &Signature) -> Self {
        let mut found = FutureOutput(None);
        found.visit_return_type_mut(&mut signature.output.clone());
        found.0.map_or(
            Self {
                ty: None,
                span: signature.ident.span(),
            },
            Self::new,
        )
    }

    fn new(mut ty: Type) -> Self {
        let span = ty.span();
        EraseImplTrait.visit_type_mut(&mut ty);
        Self { ty: Some(ty), span }
    }

    pub(crate) fn is_never(&self) -> bool {
        matches!(self.ty, Some(Type::Never(_)))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.ty, Some(Type::Tuple(tuple)) if tuple.elems.is_empty())
    }

    /// Returns code that fixes the type of the body's value, as a signature does: for inference, coercions,
    /// and errors at the body instead of at the attribute.
    pub(crate) fn type_anchor(&self) -> Option<TokenStream> {
        let ty = self.ty.as_ref().filter(|_| !self.is_never())?;
        Some(quote_spanned! {self.span.resolved_at(Span::mixed_site())=>
            if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<#ty> {
                return __distributed_lock;
            }
        })
    }
}

/// Replaces each `impl Trait`, which is valid only in a signature, by `_`.
struct EraseImplTrait;

impl VisitMut for EraseImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) = ty {
            *ty = parse_quote!(_);
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

struct FutureOutput(Option<Type>);

impl VisitMut for FutureOutput {
    fn visit_assoc_type_mut(&mut self, binding: &mut AssocType) {
        if binding.ident == "Output" {
            self.0.get_or_insert_with(|| binding.ty.clone());
        }
    }

    fn visit_path_segment_mut(&mut self, segment: &mut PathSegment) {
        if (segment.ident == "BoxFuture" || segment.ident == "LocalBoxFuture")
            && let PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(GenericArgument::Type(ty)) = arguments.args.last()
        {
            self.0.get_or_insert_with(|| ty.clone());
        }
        visit_mut::visit_path_segment_mut(self, segment);
    }
}
