"""What workers put down and the web process shows to people: links, reports, statistics. No HTTP, no GitHub."""
