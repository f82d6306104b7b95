"""Chat models loaded by transformers in this process.

Two logits processors choose the next token of each row, by a JSON schema and by a random draw.
`generate` calls them with token ids of shape (rows, length) and scores of shape (rows, vocabulary);
they return scores.
"""

import gc
import io
import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from models.adapter import Adapter
from models.weights import loading_faults, needs_extra
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from schemas.decoders import as_rgb
from schemas.errors import ModelError
from schemas.profile import TransformersChat
from schemas.validation import fault_of

if TYPE_CHECKING:
    import torch


class SchemaGrammar:
    """Compiles JSON schemas for one tokenizer.

    Args:
        tokenizer: a fast tokenizer of transformers.
        vocabulary_size: the number of scores per row that the model gives.
        end_tokens: the ids that end an answer.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int, end_tokens: list[int]) -> None:
        with needs_extra("keeping answers to a JSON schema"):
            from llguidance.hf import from_tokenizer
        self._tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary_size, eos_token=end_tokens)

    def matcher(self, schema: dict[str, Any]) -> Any:
        """A fresh matcher for one answer under `schema`.

        Raises:
            ValueError: the schema uses what cannot be enforced.
        """
        from llguidance import LLMatcher

        # Fixed spaces: otherwise a weak model could fill its whole answer with them.
        layout: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=layout)
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher


class SchemaConstraint:
    """Allows for each row only tokens with which its answer can still satisfy its JSON schema.

    Args:
        matchers: one per row; None for a row that may say anything.
    """

    def __init__(self, matchers: list[Any]) -> None:
        self._matchers = matchers
        self._started = False

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """The scores, with tokens that violate the schema at minus infinity."""
        import torch

        for row, matcher in enumerate(self._matchers):
            if matcher is None or (self._started and matcher.is_stopped()):
                continue
            if self._started:
                matcher.consume_token(int(input_ids[row, -1]))
            bits = np.unpackbits(
                np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little"
            )
            allowed = torch.from_numpy(bits[: scores.shape[1]].astype(bool)).to(scores.device)
            scores[row] = scores[row].masked_fill(~allowed, -torch.inf)
        self._started = True
        return scores


class SeededDraw:
    """Turns taking the best token into sampling, with a random generator for each row.

    Adding Gumbel noise to log-probabilities and taking the maximum samples exactly from them. So
    the sample depends on the seed only, not on the other requests of the batch.

    Args:
        rows: the number of rows.
        seed: where each row's generator starts; None for anywhere.
        device: where the scores are.
    """

    def __init__(self, rows: int, seed: int | None, device: "torch.device") -> None:
        import torch

        self._generators = [torch.Generator(device) for _ in range(rows)]
        for generator in self._generators:
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(seed)

    def __call__(self, _input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """The scores plus noise."""
        import torch

        noise = torch.stack(
            [
                -torch.empty_like(scores[0], dtype=torch.float32)
                .exponential_(generator=generator)
                .log()
                for generator in self._generators
            ]
        )
        return scores.float() + noise


class TransformersChatModel(Adapter[TransformersChat]):
    """Answers in batches of `spec.batch_size`, with text models and vision-language models.

    transformers itself knows no JSON schemas: llguidance keeps answers to them, token by token. An
    answer under one seed does not depend on its batch, except for the rounding that padding brings.
    The seconds of an answer are its share of its batch's time.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelError: the model could not be loaded, or a batch does not fit into memory.
    """

    def __init__(self, spec: TransformersChat) -> None:
        with needs_extra(f"the model {spec.name!r} (provider 'transformers')"):
            import torch
            import transformers
        super().__init__(spec)
        self._torch = torch
        self._transformers = transformers
        with loading_faults("transformers", spec.ref):
            try:
                self._load()
            except ImportError as error:
                if spec.quantization_config is None:
                    raise
                method = spec.quantization_config.get("quant_method", "quantization_config")
                raise ModelError(
                    f"{spec.ref} asks for {method}, which is not installed here: {fault_of(error)}"
                ) from error

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, batch by batch: see `ChatModel`."""
        numbered = enumerate(requests)
        while batch := list(islice(numbered, self._spec.batch_size)):
            prepared: list[tuple[int, _Prepared]] = []
            for position, request in batch:
                outcome = self._prepare(request)
                if isinstance(outcome, ChatFailure):
                    yield position, outcome
                else:
                    prepared.append((position, outcome))
            if prepared:
                yield from self._answer_batch(prepared)

    def close(self) -> None:
        """Frees the memory of the weights; the model cannot be used any more."""
        del self._model
        gc.collect()
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()

    def _load(self) -> None:
        auto = self._transformers
        where = {"revision": self._spec.revision, "trust_remote_code": False}
        config = auto.AutoConfig.from_pretrained(self._spec.name, **where)
        self._sees_images = type(config) in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        model_class: Any = auto.AutoModelForCausalLM
        processor_class: Any = auto.AutoTokenizer
        if self._sees_images:
            model_class, processor_class = auto.AutoModelForImageTextToText, auto.AutoProcessor
        self._processor = processor_class.from_pretrained(self._spec.name, **where)
        self._tokenizer = self._processor.tokenizer if self._sees_images else self._processor
        if getattr(self._processor, "chat_template", None) is None:
            raise ModelError(
                f"{self._spec.ref} has no chat template; name a model that is trained for chat"
            )
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model = model_class.from_pretrained(
            self._spec.name, dtype=self._spec.dtype, use_safetensors=True, **where, **self._placed()
        ).eval()
        text = config.get_text_config()
        ends = self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id
        self._end_tokens: list[int] = ends if isinstance(ends, list) else [ends]
        self._longest: int = text.max_position_embeddings
        self._grammar = SchemaGrammar(self._tokenizer, text.vocab_size, self._end_tokens)

    def _placed(self) -> dict[str, Any]:
        """The arguments for the placement and the dtype of weights."""
        device_map = self._spec.device_map
        placed: dict[str, Any] = {"device_map": device_map or {"": self._device()}}
        if (quantized := self._spec.quantization_config) is not None:
            placed["quantization_config"] = dict(quantized)
        return placed

    def _device(self) -> Any:
        if self._spec.device != "auto":
            return self._torch.device(self._spec.device)
        accelerator = self._torch.accelerator.current_accelerator(check_available=True)
        return accelerator or self._torch.device("cpu")

    def _prepare(self, request: ChatRequest) -> "_Prepared | ChatFailure":
        """The request in the model's chat template, or why it cannot be asked."""
        if request.images and not self._sees_images:
            return _refuse(f"{self.ref} takes no images")
        try:
            images = [_decode(image.data) for image in request.images]
        except OSError as error:
            return _refuse(f"an image does not decode: {error}")
        try:
            schema = request.answer_schema
            matcher = None if schema is None else self._grammar.matcher(schema)
        except ValueError as error:
            return _refuse(f"llguidance cannot enforce the answer schema: {error}")
        content: Any = request.prompt
        if self._sees_images:
            content = [{"type": "image"} for _ in images]
            content.append({"type": "text", "text": request.prompt})
        text = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        return _Prepared(text, images, matcher)

    def _answer_batch(
        self, batch: list[tuple[int, "_Prepared"]]
    ) -> Iterator[tuple[int, ChatOutcome]]:
        start = time.perf_counter()
        inputs = self._encode([prepared for _, prepared in batch])
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        room = self._longest - self._spec.sampling.max_tokens
        if max(lengths) > room:
            fitting = []
            for item, length in zip(batch, lengths, strict=True):
                if length <= room:
                    fitting.append(item)
                    continue
                detail = f"the prompt has {length} tokens; {self.ref} leaves room for {room}"
                yield item[0], _refuse(detail)
            if fitting:
                yield from self._answer_batch(fitting)
            return
        written = self._generate(inputs, [prepared.matcher for _, prepared in batch])
        seconds = (time.perf_counter() - start) / len(batch)
        for (position, _), tokens_in, tokens in zip(batch, lengths, written, strict=True):
            yield position, self._read(tokens, tokens_in, seconds)

    def _encode(self, batch: list["_Prepared"]) -> Any:
        images: dict[str, Any] = {}
        if any(prepared.images for prepared in batch):
            images = {"images": [image for prepared in batch for image in prepared.images]}
        # The chat template contains the special tokens.
        return self._processor(
            text=[prepared.text for prepared in batch],
            add_special_tokens=False,
            padding=True,
            return_tensors="pt",
            **images,
        ).to(self._model.device)

    def _generate(self, inputs: Any, matchers: list[Any]) -> list[list[int]]:
        """The tokens that the model generates after each prompt, padding included."""
        sampling = self._spec.sampling
        processors: list[Any] = []
        if any(matcher is not None for matcher in matchers):
            processors.append(SchemaConstraint(matchers))
        if sampling.temperature > 0:
            processors.append(self._transformers.TemperatureLogitsWarper(sampling.temperature))
            if sampling.top_p < 1:
                processors.append(self._transformers.TopPLogitsWarper(sampling.top_p))
            processors.append(SeededDraw(len(matchers), sampling.seed, self._model.device))
        try:
            written = self._model.generate(
                **inputs,
                # The draw is made by a processor, so the best token is the drawn one.
                do_sample=False,
                max_new_tokens=sampling.max_tokens,
                eos_token_id=self._end_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                logits_processor=self._transformers.LogitsProcessorList(processors),
            )
        except self._torch.OutOfMemoryError as error:
            raise ModelError(
                f"{len(matchers)} requests do not fit into memory at once; "
                f"lower batch_size ({self._spec.batch_size}) of {self.ref}"
            ) from error
        tokens: list[list[int]] = written[:, inputs["input_ids"].shape[1] :].tolist()
        return tokens

    def _read(self, tokens: list[int], tokens_in: int, seconds: float) -> ChatAnswer:
        end = next((at for at, token in enumerate(tokens) if token in self._end_tokens), None)
        spoken = tokens[:end]
        return ChatAnswer(
            text=self._tokenizer.decode(spoken, skip_special_tokens=True),
            tokens_in=tokens_in,
            tokens_out=len(spoken) + (end is not None),
            seconds=seconds,
            truncated=end is None,
        )


class _Prepared(NamedTuple):
    """A request ready for a batch; `matcher` enforces its schema, if it has one."""

    text: str
    images: list[Image.Image]
    matcher: Any


def _refuse(detail: str) -> ChatFailure:
    return ChatFailure(reason="refused_request", detail=detail, retriable=False)


def _decode(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        return as_rgb(image)
