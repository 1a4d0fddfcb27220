"""Consumer groups that every broker has, because RocketMQ's tools use them without creating them."""

from __future__ import annotations

from typing import Final

PRESET_GROUPS: Final = (
    *("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL"),
    *("CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"),
)
