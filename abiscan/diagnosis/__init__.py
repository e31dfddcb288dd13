"""The diagnosis of errors that users paste: which cause they have, and what is known of the names in them."""
