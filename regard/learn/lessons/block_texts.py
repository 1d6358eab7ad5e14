"""Texts of the steps of a Transformer block, in English and in Korean."""

from __future__ import annotations

from typing import Any

from regard.common.bilingual import Text

INPUT = Text("Input", "입력")
SOURCE = Text("Source", "원문")
SELF = Text("Self-attention", "셀프 어텐션")
CAUSAL = Text("Masked self-attention", "마스크를 쓰는 셀프 어텐션")
CROSS = Text("Cross-attention", "크로스 어텐션")
FEEDFORWARD = Text("Feed-forward network", "피드포워드 신경망")
FINAL = Text("After the last layer", "마지막 층 다음")

TOKENS = Text("tokens", "토큰")
STATISTICS = Text("mean and variance", "평균과 분산")
PAPER_ORDER = Text("p in the paper's order of columns", "논문의 열 순서로 쓴 p")
SCORES = Text("scores", "점수")
MASK = Text("mask", "마스크")
MASKED = Text("masked scores", "마스크를 더한 점수")
JOINED = Text("heads side by side", "나란히 이어 붙인 헤드")
POSITION, TOKEN_ID = Text("position", "위치"), Text("id", "번호")
READ, PREDICTED = Text("input", "입력"), Text("to predict", "예측할 토큰")

SUBSCRIPTS = "₀₁₂₃₄"
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "swiglu": "SwiGLU"}
FORMULAS = {
    "dot": "scores = Q·Kᵀ",
    "scaled_dot": "scores = Q·Kᵀ / √E",
    "general": "scores = Q·W·Kᵀ",
    "additive": "scores = v·tanh(q + k)",
    "cosine": "scores = cos(q, k) / τ",
    "cosine_fixed": "scores = cos(q, k) / 0.1",
    "cosine_plain": "scores = cos(q, k)",
}

STEPS = {
    "tokens": (
        Text("Tokens", "토큰"),
        Text(
            "The text becomes tokens, and each token the number of a row in the table of embeddings.",
            "글을 토큰으로 나누고, 토큰마다 임베딩 표의 행 번호를 붙입니다.",
        ),
    ),
    "shifted": (
        Text("Tokens of the target, shifted right", "오른쪽으로 한 칸 민 번역문의 토큰"),
        Text(
            "The decoder reads the target shifted right by one: a start token comes first, so that at each position "
            "it has read only the tokens before the one that it is to predict.",
            "디코더는 오른쪽으로 한 칸 민 번역문을 읽습니다. 맨 앞에 시작 토큰을 두므로, 어느 위치에서든 예측할 "
            "토큰보다 앞에 있는 "
            "토큰만 읽은 상태입니다.",
        ),
    ),
    "source": (
        Text("Output of the encoder, m", "인코더의 출력 m"),
        Text(
            "The encoder has turned the source into one vector per token; a walkthrough of the source alone shows how. "
            "Cross-attention makes its keys and values of them.",
            "인코더가 원문의 토큰마다 벡터를 하나씩 만들어 놓았습니다(그 과정은 원문만 주면 볼 수 있습니다). 크로스 "
            "어텐션의 키와 값은 "
            "이 벡터로 만듭니다.",
        ),
    ),
    "embeddings": (
        Text("Embeddings, e", "임베딩 e"),
        Text(
            "Each token gets its row of the embedding table: the same vector wherever it stands.",
            "토큰마다 임베딩 표에서 제 행을 가져옵니다. 같은 토큰이면 어디에 있든 같은 벡터입니다.",
        ),
    ),
    "scaled_embeddings": (
        Text("Embeddings, e", "임베딩 e"),
        Text(
            "Each token gets its row of the embedding table, multiplied by √D = {scale} as in the paper: the same "
            "vector wherever it stands.",
            "토큰마다 임베딩 표에서 제 행을 가져와 논문처럼 √D = {scale}을 곱합니다. 같은 토큰이면 어디에 있든 같은 "
            "벡터입니다.",
        ),
    ),
    "positions": (
        Text("Positions, p", "위치 p"),
        Text(
            "Each position has a vector of its own: sines and cosines in turn, in waves that grow longer from left to "
            "right (D = {size}; t counts from 0).",
            "위치마다 고유한 벡터가 있습니다. 사인과 코사인이 번갈아 나오고, 오른쪽으로 갈수록 파장이 길어집니다(D = "
            "{size}, t는 0부터).",
        ),
    ),
    "own_positions": (
        Text("Positions, p", "위치 p"),
        Text(
            "Each position has a vector of its own, of sines and cosines (D = {size}; t counts from 0). This model "
            "keeps all sines before all cosines; below, the same in the paper's order: sine, cosine in turn.",
            "위치마다 사인과 코사인으로 된 고유한 벡터가 있습니다(D = {size}, t는 0부터). 이 모델은 사인을 모두 앞에, "
            "코사인을 모두 뒤에 "
            "둡니다. 아래는 같은 벡터를 논문처럼 사인과 코사인이 번갈아 나오게 쓴 것입니다.",
        ),
    ),
    "learned_positions": (
        Text("Positions, p", "위치 p"),
        Text("Each position has a vector of its own, which was learnt.", "위치마다 학습한 고유한 벡터가 있습니다."),
    ),
    "sum": (
        Text("Embeddings + positions, x₀", "임베딩 + 위치, x₀"),
        Text(
            "Without the positions, attention could not tell the order of the tokens: now one token has another vector "
            "at another position.",
            "위치를 더하지 않으면 어텐션은 토큰의 순서를 알 수 없습니다. 이제는 같은 토큰도 위치가 다르면 벡터가 "
            "다릅니다.",
        ),
    ),
    "no_positions": (
        Text("Input of the first layer, x₀", "첫 층의 입력 x₀"),
        Text(
            "This model adds no positions, so it cannot tell the order of the tokens.",
            "이 모델은 위치를 더하지 않으므로 토큰의 순서를 알 수 없습니다.",
        ),
    ),
    "earlier": (
        Text("Input of layer {number}, x₀", "{number}층의 입력 x₀"),
        Text(
            "The vectors that layer {last} passes on. Each layer has the same steps, with weights of its own.",
            "{last}층이 넘겨준 벡터입니다. 층마다 가중치만 다르고 계산 단계는 같습니다.",
        ),
    ),
    "norm_before": (
        Text("Layer norm", "층 정규화"),
        Text(
            "Pre-norm: each row is normalised before the sublayer. Minus the mean of its numbers, divided by their "
            "standard deviation (ε = {epsilon}); then each column has its scale γ and its shift β.",
            "앞 정규화(pre-norm): 서브층에 넣기 전에 행마다 정규화합니다. 그 행의 평균을 빼고 표준편차로 나눈 뒤(ε = "
            "{epsilon}), 열마다 "
            "γ를 곱하고 β를 더합니다.",
        ),
    ),
    "norm_after": (
        Text("Add & norm: norm", "더하고 정규화: 층 정규화"),
        Text(
            "Layer norm: each row is normalised on its own, minus the mean of its numbers, divided by their standard "
            "deviation "
            "(ε = {epsilon}); then each column has its scale γ and its shift β. Batch norm would take mean and "
            "variance "
            "down each column: regard lab norm.",
            "행마다 따로 정규화합니다. 그 행의 평균을 빼고 표준편차로 나눈 뒤(ε = {epsilon}), 열마다 γ를 곱하고 β를 "
            "더합니다. 배치 "
            "정규화라면 열마다 평균과 분산을 구합니다(regard lab norm).",
        ),
    ),
    "final_norm": (
        Text("Final norm", "마지막 정규화"),
        Text(
            "With pre-norm nothing has normalised the last sum, so one more layer norm follows the last layer "
            "(ε = {epsilon}).",
            "앞 정규화에서는 마지막 합이 정규화되지 않았으므로, 마지막 층 다음에 층 정규화를 한 번 더 합니다(ε = "
            "{epsilon}).",
        ),
    ),
    "batch_norm": (
        Text("Batch norm", "배치 정규화"),
        Text(
            "This model was trained for an experiment with batch norm: mean and variance of each column, kept from "
            "training. regard lab norm works an example.",
            "이 모델은 실험을 위해 배치 정규화로 학습했습니다. 학습할 때 구해 둔 열마다의 평균과 분산을 씁니다. 계산 "
            "예는 regard lab "
            "norm에 있습니다.",
        ),
    ),
    "add": (
        Text("Add & norm: add", "더하고 정규화: 더하기"),
        Text(
            "The residual connection: the input of the sublayer is added to its output, so the sublayer only has to "
            "learn a change.",
            "잔차 연결: 서브층의 입력을 출력에 더합니다. 그래서 서브층은 바뀌는 부분만 배우면 됩니다.",
        ),
    ),
    "no_residual": (
        Text("No residual connection", "잔차 연결 없음"),
        Text(
            "This model was trained for an experiment: the input of the sublayer is not added.",
            "이 모델은 실험을 위해 서브층의 입력을 더하지 않고 학습했습니다.",
        ),
    ),
    "Q": (
        Text("Queries, Q", "쿼리 Q"),
        Text(
            "A query from each position: its vector times a matrix that is learnt{heads}.",
            "위치마다 쿼리를 만듭니다. 벡터에 학습하는 행렬을 곱합니다{heads}.",
        ),
    ),
    "K": (
        Text("Keys, K", "키 K"),
        Text(
            "A key for each token that may be attended to, by a matrix of its own{heads}.",
            "주목할 수 있는 토큰마다 키를 만듭니다. 행렬은 따로 있습니다{heads}.",
        ),
    ),
    "V": (
        Text("Values, V", "값 V"),
        Text(
            "A value for each of the same tokens: what will be averaged, by a third matrix{heads}.",
            "같은 토큰마다 값을 만듭니다. 뒤에서 가중평균할 벡터이고, 세 번째 행렬을 씁니다{heads}.",
        ),
    ),
    "unprojected": (
        Text("{letter}, not projected", "투영하지 않은 {letter}"),
        Text(
            "There is no matrix here: the vectors are taken as they are.",
            "여기에는 행렬이 없습니다. 벡터를 그대로 씁니다.",
        ),
    ),
    "score_dot": (
        Text("Scores: dot products", "점수: 내적"),
        Text(
            "Every query with every key: the dot product, not scaled. It grows with the size E = {size} of the "
            "vectors.",
            "모든 쿼리와 모든 키의 내적입니다. 나누지 않으므로 벡터의 크기 E = {size}에 따라 커집니다.",
        ),
    ),
    "score_scaled_dot": (
        Text("Scores: scaled dot products", "점수: 크기로 나눈 내적"),
        Text(
            "Every query with every key: the dot product, divided by √E with E = {size}, so that the softmax does not "
            "saturate however long the vectors are.",
            "모든 쿼리와 모든 키의 내적을 √E로 나눕니다(E = {size}). 벡터가 길어져도 소프트맥스가 한쪽으로 쏠리지 않게 "
            "합니다.",
        ),
    ),
    "score_general": (
        Text("Scores: general", "점수: general"),
        Text(
            "Every query with every key, through a matrix W between their spaces (Luong et al. 2015); W is applied to "
            "the keys once, K′ = K·Wᵀ.",
            "쿼리와 키의 공간 사이에 행렬 W를 두고 비교합니다(Luong et al. 2015). W는 키에 한 번만 곱해 둡니다(K′ = "
            "K·Wᵀ).",
        ),
    ),
    "score_additive": (
        Text("Scores: additive", "점수: additive"),
        Text(
            "Every query is added to every key; tanh of each number, then the dot product with v (Bahdanau et al. "
            "2015).",
            "모든 쿼리를 모든 키에 더하고, 수마다 tanh를 취한 뒤 v와 내적합니다(Bahdanau et al. 2015).",
        ),
    ),
    "score_cosine": (
        Text("Scores: cosine", "점수: 코사인"),
        Text(
            "Queries and keys of length one, so that only directions count; divided by a temperature τ, learnt per "
            "head: Q′ = Q / (τ|Q|), K′ = K / |K|.",
            "쿼리와 키의 길이를 1로 맞추어 방향만 비교하고, 헤드마다 학습하는 온도 τ로 나눕니다(Q′ = Q / (τ|Q|), K′ = "
            "K / |K|).",
        ),
    ),
    "score_cosine_fixed": (
        Text("Scores: cosine", "점수: 코사인"),
        Text(
            "Queries and keys of length one, so that only directions count, divided by the temperature 0.1: "
            "Q′ = Q / |Q|, K′ = K / |K|.",
            "쿼리와 키의 길이를 1로 맞추어 방향만 비교하고, 온도 0.1로 나눕니다(Q′ = Q / |Q|, K′ = K / |K|).",
        ),
    ),
    "score_cosine_plain": (
        Text("Scores: cosine", "점수: 코사인"),
        Text(
            "Queries and keys of length one, so that only directions count: Q′ = Q / |Q|, K′ = K / |K|. Scores between "
            "−1 and 1 keep the softmax from being sharp.",
            "쿼리와 키의 길이를 1로 맞추어 방향만 비교합니다(Q′ = Q / |Q|, K′ = K / |K|). 점수가 −1과 1 사이라 "
            "소프트맥스가 뾰족해질 수 "
            "없습니다.",
        ),
    ),
    "softmax": (
        Text("Weights: the softmax of each row", "가중치: 행마다 소프트맥스"),
        Text(
            "e to the power of each score, divided by the sum of its row: positive numbers that sum to 1, one for each "
            "token that may be read.",
            "점수마다 e의 거듭제곱을 구해 그 행의 합으로 나눕니다. 읽을 수 있는 토큰마다 양수가 하나씩 나오고, 더하면 "
            "1입니다.",
        ),
    ),
    "context": (
        Text("Weighted values", "값의 가중평균"),
        Text(
            "Each row of weights averages the values: what attention reads.",
            "행마다 가중치로 값을 가중평균합니다. 어텐션이 읽어 낸 결과입니다.",
        ),
    ),
    "output": (
        Text("Output of the attention: WO", "어텐션의 출력: WO"),
        Text(
            "{heads}One more matrix makes the output of the sublayer.",
            "{heads}행렬을 한 번 더 곱해 서브층의 출력을 만듭니다.",
        ),
    ),
    "no_output": (
        Text("Output of the attention", "어텐션의 출력"),
        Text(
            "There is no matrix WO: the weighted values are the output.",
            "행렬 WO가 없습니다. 가중평균이 그대로 출력입니다.",
        ),
    ),
    "hidden": (
        Text("Hidden layer, {activation}", "은닉층, {activation}"),
        Text(
            "A small network for each position on its own: widened, then {activation}.",
            "위치마다 따로 지나가는 작은 신경망입니다. 차원을 넓힌 다음 {activation}을 취합니다.",
        ),
    ),
    "narrow": (
        Text("Output of the network", "신경망의 출력"),
        Text("A second matrix narrows each row to its old size.", "두 번째 행렬로 원래 크기로 되돌립니다."),
    ),
}
"""Title and text of each kind of step; words in braces are filled in."""

SPLIT = Text(", then split into {count} heads", ". 그런 다음 헤드 {count}개로 나눕니다")
JOIN = Text("The {count} heads stand side by side. ", "헤드 {count}개를 나란히 이어 붙입니다. ")
WHY_MASKED = {
    "causal": Text("no position sees the tokens after it", "어느 위치도 뒤에 있는 토큰을 보지 못합니다"),
    "padding": Text("nobody sees padding", "패딩은 아무도 보지 못합니다"),
    "window": Text("no position sees farther than the window", "어느 위치도 창보다 먼 토큰을 보지 못합니다"),
}
DIAGONAL = Text(
    " Without projections a vector meets itself here: in {largest} of {rows} rows x·x is the largest score.",
    " 투영하지 않으면 벡터가 자기 자신과도 비교됩니다. {rows}행 가운데 {largest}행에서 x·x가 가장 큽니다.",
)


def worded(key: str, **values: Any) -> tuple[Text, Text]:
    """Return title and text of a step; `count` heads are named if there are several."""
    heads = {"output": JOIN}.get(key, SPLIT) if values.get("count", 1) > 1 else Text("", "")
    title, text = STEPS[key]
    return _filled(title, values), Text(
        text.en.format(**{"heads": heads.en.format(**values), **values}),
        text.ko.format(**{"heads": heads.ko.format(**values), **values}),
    )


def with_diagonal(step: tuple[Text, Text], largest: int, rows: int) -> tuple[Text, Text]:
    """Add to a step in how many rows the score of a vector with itself is the largest."""
    sentence = _filled(DIAGONAL, {"largest": largest, "rows": rows})
    return step[0], Text(step[1].en + sentence.en, step[1].ko + sentence.ko)


def mask(*reasons: str) -> tuple[Text, Text]:
    """Return title and text of the mask; `reasons` are keys of WHY_MASKED."""
    why = [WHY_MASKED[reason] for reason in reasons]
    return Text("Mask", "마스크"), Text(
        f"Hidden entries get the score −∞, so that their weight is 0: {', and '.join(text.en for text in why)}.",
        f"가려진 자리는 점수가 −∞가 되어 가중치가 0입니다. {'. '.join(text.ko for text in why)}.",
    )


def _filled(text: Text, values: dict[str, Any]) -> Text:
    return Text(text.en.format(**values), text.ko.format(**values))
