"""Our process and its machine: private files, locks. Only this package knows operating systems;
everything that differs between them has its branch here and a test that walks both."""
