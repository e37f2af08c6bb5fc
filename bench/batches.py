from bench.section import Section
SECTION = Section("batches", {}, lambda results: [])
