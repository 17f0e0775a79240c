"""Examples are the same in every run; ``pytest --hypothesis-profile=wander`` looks for new ones."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("wander", derandomize=False, print_blob=True)
settings.load_profile("fixed")
