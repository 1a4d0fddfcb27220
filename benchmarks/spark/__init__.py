"""What Spark pays for messages: reading stores and brokers, and writing; see ``__main__``."""
