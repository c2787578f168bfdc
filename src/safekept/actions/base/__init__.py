"""What every action leans on: whose homes, the record, scratch places, consent."""
