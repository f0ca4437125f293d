"""Large values in the pages of a scan, which are DynamoDB JSON that nobody has decoded."""
