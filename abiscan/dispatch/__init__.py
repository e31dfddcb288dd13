"""A pure model of torch's dispatcher: schemas, keys, and what each release checks and says when something registers."""
