//! Four pages that are not in English, in single-byte charsets as old pages use.

/// A page in another language, at a host of the demo.
pub(super) struct Foreign {
    pub host: &'static str,
    pub path: &'static str,
    pub language: &'static str,
    pub title: &'static str,
    pub label: &'static str,
    /// Its sentences.
    pub text: &'static [&'static str],
}

pub(super) const PAGES: &[Foreign] = &[
    Foreign {
        host: "nightlight-trust.test",
        path: "/fr/phare.html",
        language: "fr",
        title: "Le phare de l'Île Dorée",
        label: "lighthouses:2",
        text: &[
            "Le phare de l'île fut allumé pour la première fois un soir d'été, après dix années de travaux.",
            "Le gardien montait les deux cents marches à la tombée de la nuit pour allumer la lampe.",
            "La lentille, taillée à Paris, flotte sur un bain de mercure et tourne sans bruit.",
            "Par temps de brume, la corne se faisait entendre jusqu'au port voisin.",
            "Depuis l'automatisation, personne n'habite plus la tour, mais le feu brille toujours.",
        ],
    },
    Foreign {
        host: "nightlight-trust.test",
        path: "/de/leuchtturm.html",
        language: "de",
        title: "Der Leuchtturm von Sankt Jürgen",
        label: "lighthouses:2",
        text: &[
            "Der Leuchtturm steht seit über hundert Jahren auf der äußersten Klippe der Insel.",
            "Der Wärter zog das Uhrwerk alle vier Stunden auf, damit sich die Linse weiterdrehte.",
            "„Das Feuer darf nie verlöschen“, hieß es in der Dienstvorschrift – und es verlosch nie.",
            "Bei Nebel ertönte das Horn zweimal in der Minute, weit über die Bucht hinaus.",
            "Heute führen Freiwillige die Gäste über die Wendeltreppe bis zur Laterne hinauf.",
        ],
    },
    Foreign {
        host: "sundaytable.test",
        path: "/de/knoedel.html",
        language: "de",
        title: "Knödel für den Sonntag",
        label: "-",
        text: &[
            "Die Kartoffeln werden am Vortag gekocht und am nächsten Morgen durch die Presse gedrückt.",
            "Mehl, Grieß und zwei Eier dazugeben und alles rasch zu einem Teig verkneten.",
            "Die Knödel müssen im heißen Wasser ziehen, bis sie von selbst an die Oberfläche steigen.",
            "Dazu gibt es Rotkohl, eine dunkle Soße und – wer mag – geröstete Brösel.",
        ],
    },
    Foreign {
        host: "skep.test",
        path: "/es/colmena.html",
        language: "es",
        title: "La colmena de Peña Alta",
        label: "beekeeping:2",
        text: &[
            "El apicultor abre la colmena en las mañanas tibias de abril y busca a la reina.",
            "Las abejas traen polen de romero y de tomillo desde los montes cercanos.",
            "La miel se extrae en julio y se guarda en tinajas, como hacían los abuelos.",
            "¿Cuántos panales debe quedarse el enjambre? Los que pesen más que el invierno.",
        ],
    },
];
