"""Who answers: the providers as data, which one is asked, how it is, what it costs."""
