from litemq.format._columns_py import Columns as Columns
from litemq.format._columns_py import pick as pick

def is_compiled() -> bool: ...
