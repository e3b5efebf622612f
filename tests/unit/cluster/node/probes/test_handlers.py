import pytest

from kcr_devcluster.cluster.node.pods import ContainerPort, HTTPGetAction, KubeletContainer
from kcr_devcluster.cluster.node.probes.handlers import resolve_port, url_of

CONTAINER = KubeletContainer(ports=(ContainerPort(name="http", container_port=8080),))


@pytest.mark.parametrize(("port", "number"), [(80, 80), ("http", 8080), ("90", 90)])
def test_port_is_a_number_or_a_name(port: int | str, number: int) -> None:
    assert resolve_port(port, CONTAINER) == number


@pytest.mark.parametrize(
    ("port", "message"),
    [("web", 'strconv.Atoi: parsing "web": invalid syntax'), (0, "invalid port number: 0"), ("70000", "number: 70000")],
)
def test_port_that_is_not_there_is_refused(port: int | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_port(port, CONTAINER)


@pytest.mark.parametrize(
    ("action", "url"),
    [
        pytest.param(HTTPGetAction(port="http", path="/a?b=c"), "http://1.2.3.4:8080/a?b=c", id="named-port"),
        pytest.param(HTTPGetAction(port=1, scheme="HTTPS"), "https://1.2.3.4:1/", id="scheme"),
        pytest.param(HTTPGetAction(port=1, path="a", host="h"), "http://h:1/a", id="host"),
        pytest.param(HTTPGetAction(port=1, path="/", host="::1"), "http://[::1]:1/", id="six"),
    ],
)
def test_url_says_where_a_get_leads(action: HTTPGetAction, url: str) -> None:
    assert url_of(action, CONTAINER, "1.2.3.4") == url
