"""What is asked, decided and answered: requests, policy, plans, the objective."""
