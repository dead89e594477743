"""What is answered over HTTP: the scheduler's verbs, `/v1`, the page. Flask."""
