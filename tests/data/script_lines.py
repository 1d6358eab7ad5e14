"""Lines of two sentences each in many scripts, as people write them."""

from __future__ import annotations

Lines = dict[str, tuple[str, str, str]]


def read_lines(table: str) -> Lines:
    """Read a name, a first sentence, what stands between, and a second sentence from each line."""
    lines = {}
    for line in table.strip().splitlines():
        name, first, gap, second = line.strip().split(" / ")
        lines[name] = (first, " " if gap == "space" else "", second)
    return lines


TWO_SENTENCES = read_lines("""
    Khmer / ខ្ញុំទៅផ្ទះ។ / space / គាត់កំពុងគេង។
    Khmer, glued / ខ្ញុំទៅផ្ទះ។ / glued / គាត់កំពុងគេង។
    Khmer, end of a text / ខ្ញុំទៅផ្ទះ៕ / space / គាត់កំពុងគេង៕
    Burmese / ငါ အိမ်ပြန်တယ်။ / space / သူ အိပ်တယ်။
    Burmese, glued / ငါ အိမ်ပြန်တယ်။ / glued / သူ အိပ်တယ်။
    Tibetan / ང་ནང་ལ་འགྲོ། / space / ཁོ་འདིར་སྡོད།
    Tibetan, two shads / ང་ནང་ལ་འགྲོ། ། / glued / ཁོ་འདིར་སྡོད། །
    Tibetan, double shad / ང་ནང་ལ་འགྲོ༎ / space / ཁོ་འདིར་སྡོད༎
    Lao, full stop / ຂ້ອຍກັບບ້ານ. / space / ລາວກຳລັງນອນ.
    Hindi / मैं घर जाता हूँ। / space / वह सो रही है।
    Hindi, glued / मैं घर जाता हूँ। / glued / वह सो रही है।
    Hindi, full stop / मैं घर जाता हूँ. / glued / वह सो रही है.
    Marathi, full stop / तो घरी जातो आहे. / glued / ती झोपते आहे.
    French, quotation / Ils ont dit « Oui. » / space / Puis ils partirent.
    Hindi, bar / मैं घर जाता हूँ| / space / वह सो रही है|
    Hindi, question / क्या वह घर गया? / glued / हाँ वह घर गया।
    Bengali, glued / আমি বাড়ি যাই। / glued / সে ঘুমাচ্ছে।
    Punjabi / ਮੈਂ ਘਰ ਜਾਂਦਾ ਹਾਂ। / space / ਉਹ ਸੌਂ ਰਿਹਾ ਹੈ।
    Odia, glued / ମୁଁ ଘରକୁ ଯାଏ। / glued / ସେ ଶୋଇଛି।
    Tamil / நான் வீட்டிற்கு செல்கிறேன். / space / அவன் தூங்குகிறான்.
    Sinhala / මම ගෙදර යනවා. / space / ඔහු නිදාගෙන සිටී.
    Greek, question / Εγώ πάω σπίτι; / space / Αυτός κοιμάται.
    Greek, question sign / Εγώ πάω σπίτι; / space / Αυτός κοιμάται.
    Greek, small letters / τι κάνεις; / space / εγώ κοιμάμαι.
    Greek, quotation / Είπε «ναι»; / space / Μετά έφυγε.
    Armenian / Ես տուն եմ գնում։ / space / Նա քնած է։
    Armenian, glued / Ես տուն եմ գնում։ / glued / Նա քնած է։
    Armenian, colon / Ես տուն եմ գնում: / space / Նա քնած է:
    Amharic / እኔ ቤት እሄዳለሁ። / glued / እሱ ይተኛል።
    Amharic, typed / እኔ ቤት እሄዳለሁ፡፡ / space / እሱ ይተኛል፡፡
    Urdu / میں گھر جاتا ہوں۔ / space / وہ سو رہی ہے۔
    Urdu, glued / میں گھر جاتا ہوں۔ / glued / وہ سو رہی ہے۔
    Arabic, question / هل ذهبت إلى البيت؟ / glued / نعم ذهبت.
    Hebrew / אני הולך הביתה. / space / הוא ישן.
    Chinese / 我回家。 / glued / 他在睡觉。
    Japanese / 私は帰る。 / glued / 彼は寝ている。
    Korean / 나는 집에 간다. / glued / 그는 잔다.
    Georgian / მე სახლში მივდივარ. / space / ის სძინავს.
    Javanese / ꦱꦸꦒꦼꦁꦲꦼꦚ꧀ꦗꦁ꧉ / glued / ꦲꦶꦏꦶꦥꦶꦫ꧉
    Balinese / ᬲᬸᬓ᭟ / glued / ᬮᬦ᭟
    Mongolian / ᠪᠢ ᠭᠡᠷ ᠲᠦ ᠬᠠᠷᠢᠨᠠ᠃ / space / ᠲᠡᠷᠡ ᠤᠨᠲᠠᠨᠠ᠃
    Syriac / ܐܢܐ ܐܙܠ܁ / space / ܗܘ ܕܡܟ܁
    Meetei / ꯑꯩ ꯌꯨꯝꯗ ꯆꯠꯂꯤ꯫ / glued / ꯃꯍꯥꯛ ꯇꯨꯝꯂꯤ꯫
    Ol Chiki / ᱤᱧ ᱚᱲᱟᱜ ᱪᱟᱞᱟᱜ᱾ / space / ᱩᱱᱤ ᱜᱤᱛᱤᱡ᱾
    N'Ko / ߒ ߕߊ߯ߕߐ߫߹ / space / ߊ߬ ߛߎ߬ߣߐ߬ߕߐ߫߹
    Chakma / 𑄟𑄪𑄭 𑄊𑄧𑄢𑄴 𑄎𑄋𑄴𑅁 / glued / 𑄖𑄬 𑄊𑄪𑄟𑄴 𑄎𑄠𑄴𑅁
    small letter / A man is in the park. / space / iPhone users are sitting.
""")
"""The first sentence, what stands between, and the second, by the name of the kind."""
TWO_CLAUSES = read_lines("""
    Thai / ฉันกลับบ้าน / space / เขากำลังนอนหลับ
    Lao / ຂ້ອຍກັບບ້ານ / space / ລາວກຳລັງນອນ
    Khmer without marks / ខ្ញុំទៅផ្ទះ / space / គាត់កំពុងគេង
""")
"""Sentences without marks: whether a space parts them, the lines of the training data tell."""
