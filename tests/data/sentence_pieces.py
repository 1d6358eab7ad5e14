"""What sentence ends are made of, for random lines."""

from __future__ import annotations

TEXT = """
    . ! ? … 。 ！ ？ ؟ ։ .. ?! ... , ; : " ' ” ’ » ) ] 」 “ ( [ ¿
    「 [1] [12 ¹ ³ * 🙂 ⚽️ 👩🏽‍🚀 Dr U.S e.g No Nr Núm NÚM n° Fig A d h 3 12 1234 12345 iv xii
    1.2 1) Mai März Januari Januar_ 5 ich She went дом Дом 你好 我 です と 나는 간다 했어요 갔죠 კარგი ab ª ½ Ⅳ _ 𝒜
    é É ß
"""
PIECES = [*TEXT.split(), *([" "] * 40)]
"""What marks of sentences stand beside."""
SCRIPTS = """
    . . . ? ! ... ; : :: | ፡ ፡፡ … ․ ‽ ． ؟ ۔ ۔ । । ॥ ། ། ༎ ། ། ༔ ។ ។ ៕ ៚ ။ ၊ ። ፧ ։ ๚ ๛ ჻ ᠃ ᭟ ᭞ ꧉ ꧈ ꫟ 𑅁 ׃ » ) “ ” " ' ( [ [1] 🙂
    मैं घर है हैं हूँ था गा क डॉ क ৫ ৬ আমি ডা ང་ དང ནི་ འགྲོ པའི ག ಕ್ ខ្ញុំ ទៅ ល។ បេ។ ល ငါ တယ် ቤት ሰላም Տուն տուն ծ Αυτός καλά α σπίτι ή ΣΕΛ αρ
    » « › ‹ med max आहे आहेत ایم اے ہوں ہے وہ آئی ۳ ۵ שלום א ฉัน ดร พ น กลับบ้าน ລາວ ກ ꦱꦸ ᬲᬸ კარგი 我 が と 나는 다 갔다 iPhone macOS eBay npm the The DIN etc Etc ca
    e.g eg np XIX XIX. 3 19 3.2 2024 Abb dept Руб РУБ руб т им Тыс дом Дом ÉT ét Č ř hmm bzw ⓐ ª ² 𝒜 no No
"""
PIECES_OF_SCRIPTS = [*SCRIPTS.split(), *([" "] * 60)]
"""Marks and words of further scripts, and words before and after small letters."""
