"""Applications on Rota, written against what any user may import."""
