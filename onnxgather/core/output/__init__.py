"""The building blocks of documents for people: pages, pictures, JUnit XML, Markdown."""
