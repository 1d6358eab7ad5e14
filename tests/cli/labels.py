"""Labels of a program in five languages, each word in small letters and, by hand, in capitals."""

from __future__ import annotations

from itertools import product

VERBS = {
    "tr": "aç AÇ|kapat KAPAT|kaydet KAYDET|sil SİL|iptal İPTAL|yazdır YAZDIR|kopyala KOPYALA|kilitle KİLİTLE|göster GÖSTER",
    "az": "aç AÇ|bağla BAĞLA|saxla SAXLA|sil SİL|dayandır DAYANDIR|çıxar ÇIXAR|köçür KÖÇÜR|kilidlə KİLİDLƏ|göstər GÖSTƏR",
    "el": "Άνοιγμα ΑΝΟΙΓΜΑ|Κλείσιμο ΚΛΕΙΣΙΜΟ|Αποθήκευση ΑΠΟΘΗΚΕΥΣΗ|Διαγραφή ΔΙΑΓΡΑΦΗ|Ακύρωση ΑΚΥΡΩΣΗ|Εκτύπωση ΕΚΤΥΠΩΣΗ|"
    "Αντιγραφή ΑΝΤΙΓΡΑΦΗ|Κλείδωμα ΚΛΕΙΔΩΜΑ|Εμφάνιση ΕΜΦΑΝΙΣΗ",
    "lt": "Atidaryti ATIDARYTI|Uždaryti UŽDARYTI|Įrašyti ĮRAŠYTI|Ištrinti IŠTRINTI|Atšaukti ATŠAUKTI|Spausdinti SPAUSDINTI|"
    "Kopijuoti KOPIJUOTI|Užrakinti UŽRAKINTI|Rodyti RODYTI",
    "nl": "openen OPENEN|sluiten SLUITEN|opslaan OPSLAAN|verwijderen VERWIJDEREN|annuleren ANNULEREN|afdrukken AFDRUKKEN|"
    "kopiëren KOPIËREN|vergrendelen VERGRENDELEN|tonen TONEN",
}
NOUNS = {
    "tr": "Dosyayı DOSYAYI|Işıkları IŞIKLARI|Resmi RESMİ|Pencereyi PENCEREYİ|Kapıyı KAPIYI|İşi İŞİ|Sırayı SIRAYI|Ilık ILIK",
    "az": "Faylı FAYLI|İşıqları İŞIQLARI|Şəkli ŞƏKLİ|Pəncərəni PƏNCƏRƏNİ|Qapını QAPINI|İşi İŞİ|Sətri SƏTRİ|Ilıq ILIQ",
    "el": "αρχείου ΑΡΧΕΙΟΥ|φώτων ΦΩΤΩΝ|εικόνας ΕΙΚΟΝΑΣ|παραθύρου ΠΑΡΑΘΥΡΟΥ|πόρτας ΠΟΡΤΑΣ|προϊόντος ΠΡΟΪΟΝΤΟΣ|άυλου ΑΫΛΟΥ|τώρα ΤΩΡΑ",
    "lt": "failą FAILĄ|šviesas ŠVIESAS|į̃rašą Į̃RAŠĄ|langą LANGĄ|duris DURIS|darbą DARBĄ|eilutę EILUTĘ|dabar DABAR",
    "nl": "Bestand BESTAND|Licht LICHT|Afbeelding AFBEELDING|IJs IJS|Deur DEUR|IJzer IJZER|Regel REGEL|IJsvogel IJSVOGEL",
}
VERB_FIRST = ("el", "lt")


def labels(language: str) -> list[tuple[str, str]]:
    """Return each verb with each noun, in small letters and in capitals."""
    verbs, nouns = (
        [word.split() for word in table[language].split("|")]
        for table in (VERBS, NOUNS)
    )
    pairs = [
        (verb, noun) if language in VERB_FIRST else (noun, verb)
        for verb, noun in product(verbs, nouns)
    ]
    return [
        (" ".join(small), " ".join(capitals))
        for small, capitals in (zip(*pair, strict=True) for pair in pairs)
    ]
