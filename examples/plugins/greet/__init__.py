"""A command of the terminal: `hermes greet NAME`. It needs no model."""


def setup(parser):
    """`parser` is one of argparse."""
    parser.add_argument("name", help="whom to greet")


def run(args):
    print(f"Hello {args.name}.")


def register(ctx):
    ctx.register_cli_command("greet", "Greet somebody.", setup, run)
