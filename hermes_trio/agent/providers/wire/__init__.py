"""The two wire formats of model servers: requests and answers of each."""
