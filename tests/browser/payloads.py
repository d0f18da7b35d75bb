"""Texts that would run a script or change the page if they were inserted as HTML."""

from __future__ import annotations

from typing import Final

PAYLOADS: Final = (
    "<script>window.injected=1</script>",
    "<img src=x onerror=window.injected=1>",
    "<svg onload=window.injected=1>",
    "<svg><script>window.injected=1</script></svg>",
    "<iframe srcdoc='<script>parent.injected=1</script>'></iframe>",
    "<body onload=window.injected=1>",
    "<details open ontoggle=window.injected=1>",
    "<a href=javascript:window.injected=1>x</a>",
    "<math><mtext><style><img src=x onerror=window.injected=1>",
    "<input autofocus onfocus=window.injected=1>",
    "<video><source onerror=window.injected=1>",
    "<object data=javascript:window.injected=1>",
    "<embed src=javascript:window.injected=1>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example/>",
    "<form action=//evil.example><button>x</button></form>",
    "<style>body{display:none}</style>",
    "<template><script>window.injected=1</script></template>",
    "</title><script>window.injected=1</script>",
    "</textarea><script>window.injected=1</script>",
    '"><script>window.injected=1</script>',
    "'onmouseover='window.injected=1",
    "javascript:window.injected=1",
    "data:text/html,<script>window.injected=1</script>",
    "{{constructor.constructor('window.injected=1')()}}",
    "${window.injected=1}",
    "&lt;script&gt;window.injected=1&lt;/script&gt;",
    "<!--><img src=x onerror=window.injected=1>-->",
    "<x-y onclick=window.injected=1 tabindex=0>\u202e\u0000x</x-y>",
)
