"""Examples are the same in every run; ``pytest --hypothesis-profile=wander`` looks for new ones."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")
