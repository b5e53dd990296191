//! From tokens to an expression.

use super::lexer::{Placed, Token, tokens};
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
        steps: Vec<Step>,
    },
    /// An expression with predicates and further steps.
    Filter {
        of: Box<Expr>,
        predicates: Vec<Expr>,
        steps: Vec<Step>,
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
pub(super) struct Step {
    pub axis: Axis,
    pub test: Test,
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
    /// Whether positions count against the order of the document.
    pub fn is_reverse(self) -> bool {
        matches!(
            self,
            Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
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
    tokens: Vec<Placed>,
    next: usize,
    /// Length of the text.
    end: usize,
    depth: usize,
}

type Parsed = Result<Expr, XPathError>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn after(&self) -> Option<&Token> {
        self.tokens.get(self.next + 1).map(|(token, _)| token)
    }

    fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    fn take(&mut self, token: &Token) -> bool {
        let is = self.peek() == Some(token);
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, token: &Token, what: &str) -> Result<(), XPathError> {
        if self.take(token) {
            return Ok(());
        }
        Err(error(self.place(), &format!("{what} is expected here")))
    }

    fn or(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let why = format!("brackets nest deeper than {MAX_DEPTH}");
            return Err(error(self.place(), &why));
        }
        let mut left = self.and()?;
        while self.take(&Token::Or) {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.equality()?;
        while self.take(&Token::And) {
            left = Expr::And(Box::new(left), Box::new(self.equality()?));
        }
        Ok(left)
    }

    fn equality(&mut self) -> Parsed {
        let mut left = self.relation()?;
        loop {
            let how = match self.peek() {
                Some(Token::Equal) => Comparison::Equal,
                Some(Token::NotEqual) => Comparison::NotEqual,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Compare(how, Box::new(left), Box::new(self.relation()?));
        }
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let how = match self.peek() {
                Some(Token::Less) => Comparison::Less,
                Some(Token::LessEqual) => Comparison::LessEqual,
                Some(Token::More) => Comparison::More,
                Some(Token::MoreEqual) => Comparison::MoreEqual,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Compare(how, Box::new(left), Box::new(self.sum()?));
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let how = match self.peek() {
                Some(Token::Plus) => Operator::Add,
                Some(Token::Minus) => Operator::Subtract,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Arithmetic(how, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let how = match self.peek() {
                Some(Token::Multiply) => Operator::Multiply,
                Some(Token::Div) => Operator::Divide,
                Some(Token::Mod) => Operator::Modulo,
                _ => return Ok(left),
            };
            self.next += 1;
            left = Expr::Arithmetic(how, Box::new(left), Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> Parsed {
        let mut minus = 0_usize;
        while self.take(&Token::Minus) {
            minus += 1;
        }
        let expr = self.union()?;
        Ok(match minus {
            0 => expr,
            odd if odd % 2 == 1 => Expr::Negate(Box::new(expr)),
            _ => Expr::Negate(Box::new(Expr::Negate(Box::new(expr)))),
        })
    }

    fn union(&mut self) -> Parsed {
        let mut left = self.path()?;
        while self.take(&Token::Bar) {
            left = Expr::Union(Box::new(left), Box::new(self.path()?));
        }
        Ok(left)
    }

    fn path(&mut self) -> Parsed {
        match self.peek() {
            Some(Token::Slash) => {
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
            Some(Token::SlashSlash) => {
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
            Some(Token::Dot | Token::DotDot | Token::At | Token::Star | Token::Name(_))
        )
    }

    fn begins_filter(&self) -> bool {
        match self.peek() {
            Some(Token::Open | Token::Literal(_) | Token::Number(_)) => true,
            Some(Token::Name(name)) => {
                let is_type = matches!(
                    name.as_str(),
                    "node" | "text" | "comment" | "processing-instruction"
                );
                !is_type && self.after() == Some(&Token::Open)
            }
            _ => false,
        }
    }

    fn filter(&mut self) -> Parsed {
        let of = match self.peek().cloned() {
            Some(Token::Literal(text)) => {
                self.next += 1;
                Expr::Literal(text)
            }
            Some(Token::Number(value)) => {
                self.next += 1;
                Expr::Number(value)
            }
            Some(Token::Name(name)) => self.call(&name)?,
            _ => {
                self.expect(&Token::Open, "`(`")?;
                let inner = self.or()?;
                self.expect(&Token::Close, "`)`")?;
                inner
            }
        };
        let place = self.place();
        let predicates = self.predicates()?;
        let mut steps = Vec::new();
        if self.take(&Token::SlashSlash) {
            steps = self.steps(vec![anywhere()])?;
        } else if self.take(&Token::Slash) {
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

    fn call(&mut self, name: &str) -> Parsed {
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
        while self.peek() != Some(&Token::Close) {
            if !arguments.is_empty() {
                self.expect(&Token::Comma, "`,` or `)`")?;
            }
            arguments.push(self.or()?);
        }
        self.expect(&Token::Close, "`)`")?;
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

    fn steps(&mut self, mut steps: Vec<Step>) -> Result<Vec<Step>, XPathError> {
        loop {
            steps.push(self.step()?);
            if self.take(&Token::SlashSlash) {
                steps.push(anywhere());
            } else if !self.take(&Token::Slash) {
                return Ok(steps);
            }
        }
    }

    fn step(&mut self) -> Result<Step, XPathError> {
        let short = match self.peek() {
            Some(Token::Dot) => Some(Axis::SelfNode),
            Some(Token::DotDot) => Some(Axis::Parent),
            _ => None,
        };
        if let Some(axis) = short {
            self.next += 1;
            return Ok(Step {
                axis,
                test: Test::Node,
                predicates: Vec::new(),
            });
        }
        let axis = self.axis()?;
        let test = self.test()?;
        let predicates = self.predicates()?;
        Ok(Step {
            axis,
            test,
            predicates,
        })
    }

    fn axis(&mut self) -> Result<Axis, XPathError> {
        if self.take(&Token::At) {
            return Ok(Axis::Attribute);
        }
        let (Some(Token::Name(name)), Some(Token::ColonColon)) = (self.peek(), self.after()) else {
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

    fn test(&mut self) -> Result<Test, XPathError> {
        let place = self.place();
        if self.take(&Token::Star) {
            return Ok(Test::Any);
        }
        let Some(Token::Name(name)) = self.peek().cloned() else {
            return Err(error(place, "a step is expected here"));
        };
        self.next += 1;
        if self.take(&Token::Open) {
            let test = match name.as_str() {
                "node" => Test::Node,
                "text" => Test::Text,
                "comment" => Test::Comment,
                other => {
                    let why = format!("`{other}()` is no step");
                    return Err(error(place, &why));
                }
            };
            self.expect(&Token::Close, "`)`")?;
            return Ok(test);
        }
        if name.contains(':') {
            let why = format!("`{name}` has a prefix; namespaces are not supported");
            return Err(error(place, &why));
        }
        Ok(Test::Name(name))
    }

    fn predicates(&mut self) -> Result<Vec<Expr>, XPathError> {
        let mut predicates = Vec::new();
        while self.take(&Token::OpenSquare) {
            predicates.push(self.or()?);
            self.expect(&Token::CloseSquare, "`]`")?;
        }
        Ok(predicates)
    }
}

/// The step that `//` stands for.
fn anywhere() -> Step {
    Step {
        axis: Axis::DescendantOrSelf,
        test: Test::Node,
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
