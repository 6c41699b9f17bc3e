"""Measures Rota against a bare SQL loop and its peers: `python -m bench`."""
