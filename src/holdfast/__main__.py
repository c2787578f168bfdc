from holdfast.cli.main import main

main()
