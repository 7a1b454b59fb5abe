# Sourced: the C++ files of the project.
cpp_files() { git ls-files -co --exclude-standard -- '*.h' '*.cpp'; }
