"""Which rules stop by themselves after how many episodes, and how few could be enough."""
