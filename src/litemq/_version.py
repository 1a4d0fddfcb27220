"""The one home of LiteMQ's version."""

VERSION = "0.1.0"
