"""The frozen values on the wire: what every object carries, and the kinds kcr reads."""
