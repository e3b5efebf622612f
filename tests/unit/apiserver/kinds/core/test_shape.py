import pytest

from kcr.apiserver.kinds.core.shape import UndecodableError, receive
from kcr.apiserver.schema.builtin import kind_shape


def test_object_that_does_not_fit_is_refused_in_words_of_the_server() -> None:
    words = "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32"
    with pytest.raises(UndecodableError) as caught:
        receive(kind_shape("batch/v1", "Job"), {"spec": {"parallelism": "3"}})
    assert caught.value.text == words
    assert str(caught.value) == f'Job in version "v1" cannot be handled as a Job: {words}'
