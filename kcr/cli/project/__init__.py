"""`kcr init`: what a new project consists of."""
