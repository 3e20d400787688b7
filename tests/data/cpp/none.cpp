// A file without a gather: one that only takes them.
void Keep(const DML_GATHER_OPERATOR_DESC& desc, std::vector<DML_OPERATOR_DESC>* kept);
