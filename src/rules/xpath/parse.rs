//! Parses tokens into an expression.

use super::lexer::{PlacedToken, XPathToken, tokens};
use super::{XPathError, error};

/// The deepest nesting of brackets.
const MAX_DEPTH: usize = 32;

/// An expression (XPath 1.0, section 3).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Arithmetic(Operator, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Union(Box<Expr>, Box<Expr>),
    Number(f64),
    Literal(String),
    Call(Function, Vec<Expr>),
    /// Steps from the context node, or from the document.
    Path {
        from_root: bool,
        steps: Vec<LocationStep>,
    },
    /// An expression with predicates and further steps.
    Filter {
        of: Box<Expr>,
        predicates: Vec<Expr>,
        steps: Vec<LocationStep>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    More,
    MoreEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocationStep {
    pub axis: Axis,
    pub test: NodeTest,
    pub predicates: Vec<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

impl Axis {
    /// Whether positions count in reverse document order.
    pub fn is_reverse(self) -> bool {
        matches!(
            self,
            Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeTest {
    /// `*`
    Any,
    Name(String),
    Node,
    Text,
    Comment,
}

macro_rules! functions {
    ($($variant:ident $name:literal $least:literal $most:literal,)*) => {
        /// A function of the core library (section 4).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function { $($variant,)* }

        impl Function {
            fn named(name: &str) -> Option<(Self, usize, usize)> {
                match name {
                    $($name => Some((Function::$variant, $least, $most)),)*
                    _ => None,
                }
            }
        }

        /// The names of the functions.
        const FUNCTIONS: &[&str] = &[$($name,)*];
    };
}

functions! {
    Last "last" 0 0,
    Position "position" 0 0,
    Count "count" 1 1,
    Id "id" 1 1,
    LocalName "local-name" 0 1,
    Name "name" 0 1,
    String "string" 0 1,
    Concat "concat" 2 64,
    StartsWith "starts-with" 2 2,
    Contains "contains" 2 2,
    SubstringBefore "substring-before" 2 2,
    SubstringAfter "substring-after" 2 2,
    Substring "substring" 2 3,
    StringLength "string-length" 0 1,
    NormalizeSpace "normalize-space" 0 1,
    Translate "translate" 3 3,
    Boolean "boolean" 1 1,
    Not "not" 1 1,
    True "true" 0 0,
    False "false" 0 0,
    Lang "lang" 1 1,
    Number "number" 0 1,
    Sum "sum" 1 1,
    Floor "floor" 1 1,
    Ceiling "ceiling" 1 1,
    Round "round" 1 1,
}

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Expr, XPathError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        end: text.len(),
        depth: 0,
    };
    let expr = parser.or()?;
    if parser.peek().is_some() {
        return Err(error(parser.place(), "nothing more is expected here"));
    }
    Ok(expr)
}

struct Parser {
    tokens: Vec<PlacedToken>,
    next: usize,
    /// Length of the text.
    end: usize,
    depth: usize,
}

type ParsedExpression = Result<Expr, XPathError>;

impl Parser {
    fn peek(&self) -> Option<&XPathToken> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn after(&self) -> Option<&XPathToken> {
        self.tokens.get(self.next + 1).map(|(token, _)| token)
    }

    fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    fn take(&mut self, token: &XPathToken) -> bool {
        let is = self.peek() == Some(token);
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, token: &XPathToken, what: &str) -> Result<(), XPathError> {
        if self.take(token) {
            return Ok(());
        }
        Err(error(self.place(), &format!("{what} is expected here")))
    }

    fn or(&mut self) -> ParsedExpression {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let why = format!("brackets nest deeper than {MAX_DEPTH}");
            return Err(error(self.place(), &why));
        }
        let mut left = self.and()?;
        while self.take(&XPathToken::Or) {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> ParsedExpression {
        let mut left = self.equality()?;
        while self.take(&XPathToken::And) {
            left = Expr::And(Box::new(left), Box::new(self.equality()?));
        }
        Ok(left)
    }

    fn equality(&mut self) -> ParsedExpression {
        let mut left = self.relation()?;
        loop {
            let how = match self.peek() {
                Some(XPathToken::Equal) => Comparison::Equal,
                Some(XPathToken::NotEqual) => Comparison::NotEqual,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Compare(how, Box::new(left), Box::new(self.relation()?));
        }
    }

    fn relation(&mut self) -> ParsedExpression {
        let mut left = self.sum()?;
        loop {
            let how = match self.peek() {
                Some(XPathToken::Less) => Comparison::Less,
                Some(XPathToken::LessEqual) => Comparison::LessEqual,
                Some(XPathToken::More) => Comparison::More,
                Some(XPathToken::MoreEqual) => Comparison::MoreEqual,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Compare(how, Box::new(left), Box::new(self.sum()?));
        }
    }

    fn sum(&mut self) -> ParsedExpression {
        let mut left = self.product()?;
        loop {
            let how = match self.peek() {
                Some(XPathToken::Plus) => Operator::Add,
                Some(XPathToken::Minus) => Operator::Subtract,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Arithmetic(how, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> ParsedExpression {
        let mut left = self.unary()?;
        loop {
            let how = match self.peek() {
                Some(XPathToken::Multiply) => Operator::Multiply,
                Some(XPathToken::Div) => Operator::Divide,
                Some(XPathToken::Mod) => Operator::Modulo,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Arithmetic(how, Box::new(left), Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> ParsedExpression {
        let mut minus = 0_usize;
        while self.take(&XPathToken::Minus) {
            minus += 1;
        }
        let expr = self.union()?;
        Ok(match minus {
            0 => expr,
            odd if odd % 2 == 1 => Expr::Negate(Box::new(expr)),
            _ => Expr::Negate(Box::new(Expr::Negate(Box::new(expr)))),
        })
    }

    fn union(&mut self) -> ParsedExpression {
        let mut left = self.path()?;
        while self.take(&XPathToken::Bar) {
            left = Expr::Union(Box::new(left), Box::new(self.path()?));
        }
        Ok(left)
    }

    fn path(&mut self) -> ParsedExpression {
        match self.peek() {
            Some(XPathToken::Slash) => {
                self.next += 1;
                let steps = if self.begins_step() {
                    self.steps(Vec::new())?
                } else {
                    Vec::new()
                };
                Ok(Expr::Path {
                    from_root: true,
                    steps,
                })
            }
            Some(XPathToken::SlashSlash) => {
                self.next += 1;
                let steps = self.steps(vec![anywhere()])?;
                Ok(Expr::Path {
                    from_root: true,
                    steps,
                })
            }
            _ if self.begins_filter() => self.filter(),
            _ => Ok(Expr::Path {
                from_root: false,
                steps: self.steps(Vec::new())?,
            }),
        }
    }

    fn begins_step(&self) -> bool {
        matches!(
            self.peek(),
            Some(
                XPathToken::Dot
                    | XPathToken::DotDot
                    | XPathToken::At
                    | XPathToken::Star
                    | XPathToken::Name(_)
            )
        )
    }

    fn begins_filter(&self) -> bool {
        match self.peek() {
            Some(XPathToken::Open | XPathToken::Literal(_) | XPathToken::Number(_)) => true,
            Some(XPathToken::Name(name)) => {
                let is_type = matches!(
                    name.as_str(),
                    "node" | "text" | "comment" | "processing-instruction"
                );
                !is_type && self.after() == Some(&XPathToken::Open)
            }
            _ => false,
        }
    }

    fn filter(&mut self) -> ParsedExpression {
        let of = match self.peek().cloned() {
            Some(XPathToken::Literal(text)) => {
                self.next += 1;
                Expr::Literal(text)
            }
            Some(XPathToken::Number(value)) => {
                self.next += 1;
                Expr::Number(value)
            }
            Some(XPathToken::Name(name)) => self.call(&name)?,
            _ => {
                self.expect(&XPathToken::Open, "`(`")?;
                let inner = self.or()?;
                self.expect(&XPathToken::Close, "`)`")?;
                inner
            }
        };
        let place = self.place();
        let predicates = self.predicates()?;
        let mut steps = Vec::new();
        if self.take(&XPathToken::SlashSlash) {
            steps = self.steps(vec![anywhere()])?;
        } else if self.take(&XPathToken::Slash) {
            steps = self.steps(Vec::new())?;
        }
        if predicates.is_empty() && steps.is_empty() {
            return Ok(of);
        }
        if !gives_nodes(&of) {
            return Err(error(place, "only nodes can have predicates or steps"));
        }
        Ok(Expr::Filter {
            of: Box::new(of),
            predicates,
            steps,
        })
    }

    fn call(&mut self, name: &str) -> ParsedExpression {
        let place = self.place();
        let Some((function, least, most)) = Function::named(name) else {
            let why = format!(
                "the function `{name}()` is not supported; known are {}",
                FUNCTIONS.join(", ")
            );
            return Err(error(place, &why));
        };
        self.next += 2;
        let mut arguments = Vec::new();
        while self.peek() != Some(&XPathToken::Close) {
            if !arguments.is_empty() {
                self.expect(&XPathToken::Comma, "`,` or `)`")?;
            }
            arguments.push(self.or()?);
        }
        self.expect(&XPathToken::Close, "`)`")?;
        if !(least..=most).contains(&arguments.len()) {
            let why = format!(
                "`{name}()` takes {least} to {most} arguments, not {}",
                arguments.len()
            );
            return Err(error(place, &why));
        }
        let wants_nodes = matches!(
            function,
            Function::Count | Function::Sum | Function::Name | Function::LocalName
        );
        if wants_nodes && arguments.first().is_some_and(|a| !gives_nodes(a)) {
            return Err(error(place, &format!("`{name}()` takes nodes")));
        }
        Ok(Expr::Call(function, arguments))
    }

    fn steps(&mut self, mut steps: Vec<LocationStep>) -> Result<Vec<LocationStep>, XPathError> {
        loop {
            steps.push(self.step()?);
            if self.take(&XPathToken::SlashSlash) {
                steps.push(anywhere());
            } else if !self.take(&XPathToken::Slash) {
                return Ok(steps);
            }
        }
    }

    fn step(&mut self) -> Result<LocationStep, XPathError> {
        let short = match self.peek() {
            Some(XPathToken::Dot) => Some(Axis::SelfNode),
            Some(XPathToken::DotDot) => Some(Axis::Parent),
            _ => None,
        };
        if let Some(axis) = short {
            self.next += 1;
            return Ok(LocationStep {
                axis,
                test: NodeTest::Node,
                predicates: Vec::new(),
            });
        }
        let axis = self.axis()?;
        let test = self.test()?;
        let predicates = self.predicates()?;
        Ok(LocationStep {
            axis,
            test,
            predicates,
        })
    }

    fn axis(&mut self) -> Result<Axis, XPathError> {
        if self.take(&XPathToken::At) {
            return Ok(Axis::Attribute);
        }
        let (Some(XPathToken::Name(name)), Some(XPathToken::ColonColon)) =
            (self.peek(), self.after())
        else {
            return Ok(Axis::Child);
        };
        let axis = match name.as_str() {
            "ancestor" => Axis::Ancestor,
            "ancestor-or-self" => Axis::AncestorOrSelf,
            "attribute" => Axis::Attribute,
            "child" => Axis::Child,
            "descendant" => Axis::Descendant,
            "descendant-or-self" => Axis::DescendantOrSelf,
            "following" => Axis::Following,
            "following-sibling" => Axis::FollowingSibling,
            "parent" => Axis::Parent,
            "preceding" => Axis::Preceding,
            "preceding-sibling" => Axis::PrecedingSibling,
            "self" => Axis::SelfNode,
            other => {
                let why = format!("the axis `{other}::` is not supported");
                return Err(error(self.place(), &why));
            }
        };
        self.next += 2;
        Ok(axis)
    }

    fn test(&mut self) -> Result<NodeTest, XPathError> {
        let place = self.place();
        if self.take(&XPathToken::Star) {
            return Ok(NodeTest::Any);
        }
        let Some(XPathToken::Name(name)) = self.peek().cloned() else {
            return Err(error(place, "a step is expected here"));
        };
        self.next += 1;
        if self.take(&XPathToken::Open) {
            let test = match name.as_str() {
                "node" => NodeTest::Node,
                "text" => NodeTest::Text,
                "comment" => NodeTest::Comment,
                other => {
                    let why = format!("`{other}()` is not a step");
                    return Err(error(place, &why));
                }
            };
            self.expect(&XPathToken::Close, "`)`")?;
            return Ok(test);
        }
        if name.contains(':') {
            let why = format!("`{name}` has a prefix; namespaces are not supported");
            return Err(error(place, &why));
        }
        Ok(NodeTest::Name(name))
    }

    fn predicates(&mut self) -> Result<Vec<Expr>, XPathError> {
        let mut predicates = Vec::new();
        while self.take(&XPathToken::OpenSquare) {
            predicates.push(self.or()?);
            self.expect(&XPathToken::CloseSquare, "`]`")?;
        }
        Ok(predicates)
    }
}

/// The step that `//` abbreviates.
fn anywhere() -> LocationStep {
    LocationStep {
        axis: Axis::DescendantOrSelf,
        test: NodeTest::Node,
        predicates: Vec::new(),
    }
}

/// Whether the value of an expression is a set of nodes.
pub(super) fn gives_nodes(expr: &Expr) -> bool {
    match expr {
        Expr::Path { .. } | Expr::Filter { .. } | Expr::Union(..) => true,
        Expr::Call(function, _) => *function == Function::Id,
        _ => false,
    }
}
