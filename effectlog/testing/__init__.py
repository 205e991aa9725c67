"""What users test their own tasks, stores and effects with. Product code never imports this package."""
