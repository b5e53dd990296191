//! Why a model cannot be estimated.

/// Why no model can be estimated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// There is not a single token.
    #[error("there is no sentence to estimate a language model from; give more text of the topic")]
    EmptyCorpus,
    /// The order is outside [`ORDERS`](super::estimate::ORDERS).
    #[error("a language model of order {order} cannot be estimated; set an order from 2 to 6")]
    Order {
        /// The requested order.
        order: usize,
    },
    /// Positions are numbered with 32 bits.
    #[error("the corpus has more than 4,294,967,295 tokens; estimate from a part of it")]
    TooLarge,
}
