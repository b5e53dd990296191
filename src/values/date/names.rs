//! Names of months, and the words around dates, in the known languages.

/// A language whose dates are read. The codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// English
    En,
    /// German
    De,
    /// French
    Fr,
    /// Spanish
    Es,
    /// Italian
    It,
    /// Portuguese
    Pt,
    /// Dutch
    Nl,
    /// Polish
    Pl,
    /// Russian
    Ru,
    /// Chinese and Japanese, which write dates in the same way (2018年2月14日)
    Zh,
    /// See `Zh`
    Ja,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 11] = [
        Language::En,
        Language::De,
        Language::Fr,
        Language::Es,
        Language::It,
        Language::Pt,
        Language::Nl,
        Language::Pl,
        Language::Ru,
        Language::Zh,
        Language::Ja,
    ];

    /// Its ISO 639 code.
    pub fn code(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::De => "de",
            Language::Fr => "fr",
            Language::Es => "es",
            Language::It => "it",
            Language::Pt => "pt",
            Language::Nl => "nl",
            Language::Pl => "pl",
            Language::Ru => "ru",
            Language::Zh => "zh",
            Language::Ja => "ja",
        }
    }

    /// The language of a code.
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }

    /// The beginnings of the names of the twelve months, in lower case, with `|` between
    /// alternatives. A word is a month if it begins with one of them and continues only with
    /// letters that a form of the name can have (`endings`).
    fn months(self) -> [&'static str; 12] {
        match self {
            Language::En => [
                "january|jan",
                "february|feb",
                "march|mar",
                "april|apr",
                "may",
                "june|jun",
                "july|jul",
                "august|aug",
                "september|sept|sep",
                "october|oct",
                "november|nov",
                "december|dec",
            ],
            Language::De => [
                "januar|jänner|jan|jän",
                "februar|feber|feb",
                "märz|maerz|mär|mrz",
                "april|apr",
                "mai",
                "juni|jun|juno",
                "juli|jul|julei",
                "august|aug",
                "september|sept|sep",
                "oktober|okt",
                "november|nov",
                "dezember|dez",
            ],
            Language::Fr => [
                "janvier|janv|jan",
                "février|fevrier|févr|fevr|fév|fev",
                "mars",
                "avril|avr",
                "mai",
                "juin",
                "juillet|juil",
                "août|aout",
                "septembre|sept|sep",
                "octobre|oct",
                "novembre|nov",
                "décembre|decembre|déc|dec",
            ],
            Language::Es => [
                "enero|ene",
                "febrero|feb",
                "marzo|mar",
                "abril|abr",
                "mayo|may",
                "junio|jun",
                "julio|jul",
                "agosto|ago",
                "septiembre|setiembre|sept|sep|set",
                "octubre|oct",
                "noviembre|nov",
                "diciembre|dic",
            ],
            Language::It => [
                "gennaio|gen",
                "febbraio|feb",
                "marzo|mar",
                "aprile|apr",
                "maggio|mag",
                "giugno|giu",
                "luglio|lug",
                "agosto|ago",
                "settembre|sett|set",
                "ottobre|ott",
                "novembre|nov",
                "dicembre|dic",
            ],
            Language::Pt => [
                "janeiro|jan",
                "fevereiro|fev",
                "março|marco|mar",
                "abril|abr",
                "maio|mai",
                "junho|jun",
                "julho|jul",
                "agosto|ago",
                "setembro|set",
                "outubro|out",
                "novembro|nov",
                "dezembro|dez",
            ],
            Language::Nl => [
                "januari|jan",
                "februari|feb",
                "maart|mrt",
                "april|apr",
                "mei",
                "juni|jun",
                "juli|jul",
                "augustus|aug",
                "september|sept|sep",
                "oktober|okt",
                "november|nov",
                "december|dec",
            ],
            Language::Pl => [
                "stycznia|styczeń|sty",
                "lutego|luty|lut",
                "marca|marzec|mar",
                "kwietnia|kwiecień|kwi",
                "maja|maj",
                "czerwca|czerwiec|cze",
                "lipca|lipiec|lip",
                "sierpnia|sierpień|sie",
                "września|wrzesień|wrz",
                "października|październik|paź",
                "listopada|listopad|lis",
                "grudnia|grudzień|gru",
            ],
            Language::Ru => [
                "января|январь|янв",
                "февраля|февраль|февр|фев",
                "марта|март|мар",
                "апреля|апрель|апр",
                "мая|май",
                "июня|июнь|июн",
                "июля|июль|июл",
                "августа|август|авг",
                "сентября|сентябрь|сент|сен",
                "октября|октябрь|окт",
                "ноября|ноябрь|нояб|ноя",
                "декабря|декабрь|дек",
            ],
            Language::Zh | Language::Ja => [""; 12],
        }
    }

    /// The month that a word names; the word is in lower case and without a final dot.
    pub(super) fn month(self, word: &str) -> Option<i8> {
        let months = self.months().into_iter().zip(1_i8..);
        let mut named = months.filter(|(names, _)| names.split('|').any(|name| name == word));
        named.next().map(|(_, month)| month)
    }

    /// The order of a date in numbers; `None` if two are in use.
    pub(super) fn order(self) -> Option<super::Order> {
        match self {
            Language::En => None,
            Language::Zh | Language::Ja => Some(super::Order::Ymd),
            _ => Some(super::Order::Dmy),
        }
    }
}
