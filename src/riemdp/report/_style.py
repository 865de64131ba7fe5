"""The style sheet of the privacy report: no fonts or pictures from elsewhere, readable on a phone
and on paper.
"""

CSS = """
:root{--ink:#1c2430;--soft:#5a6675;--line:#d9dee5;--paper:#fff;--ground:#f3f5f8;--accent:#0b5c8a;--tint:#e4eff6;
--danger:#a3161a;--danger-tint:#fdecec;--good:#1b6e3c;--mid:#8a5a00;--bad:#a3161a}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",Arial,sans-serif}
main{max-width:60rem;margin:2rem auto;background:var(--paper);padding:2.5rem 3rem;border:1px solid var(--line);
border-radius:10px}
header{border-bottom:3px solid var(--accent);padding-bottom:1rem;margin-bottom:1.5rem}
.kicker{margin:0;color:var(--accent);font-size:.85rem;font-weight:600;letter-spacing:.02em}
h1{font-size:1.75rem;line-height:1.2;margin:.35rem 0 .25rem;text-wrap:balance}
h2{font-size:1.2rem;margin:2.2rem 0 .7rem;line-height:1.3}
h3{font-size:1rem;margin:0 0 .5rem}
p{margin:.5rem 0}
.meta,.small,.caption,.card p{color:var(--soft);font-size:.875rem}
.meta{margin:0}
.banner{padding:1rem 1.2rem;border-radius:8px;margin:0 0 1.5rem}
.danger{background:var(--danger-tint);border:2px solid var(--danger);color:#5c0b0e}
.danger strong{display:block;font-size:1.15rem;color:var(--danger)}
.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:.75rem;margin:0}
.card{border:1px solid var(--line);border-radius:8px;padding:.8rem .9rem;display:flex;flex-direction:column}
.card dt{font-size:.85rem;color:var(--soft)}
.card dd{margin:.1rem 0 .2rem;font-size:1.5rem;font-weight:650;font-variant-numeric:tabular-nums;line-height:1.2;
overflow-wrap:anywhere}
.card p{margin:0;line-height:1.35}
.bar{width:100%;height:auto;margin:.6rem 0 .2rem;display:block}
.bar text{font-size:14px;fill:var(--soft)}.bar .value{fill:var(--ink);font-weight:650;font-size:15px}
.rail{fill:#e3e7ed}.fill{fill:var(--accent)}.knob{fill:var(--accent);stroke:#fff;stroke-width:2}
.reading{margin:.6rem 0 1.4rem}
.tag{display:inline-block;padding:.05rem .6rem;border-radius:1rem;font-weight:600;font-size:.875rem;color:#fff;
background:var(--soft);margin-right:.3rem}
.tag.strong{background:var(--good)}.tag.moderate{background:var(--mid)}
.tag.weak,.tag.nominal,.tag.none{background:var(--bad)}
.two{display:grid;grid-template-columns:minmax(0,1.1fr) minmax(0,1fr);gap:2rem;align-items:start}
.curve{width:100%;height:auto;display:block}
.curve text{font-size:13px;fill:var(--soft)}
.curve .grid line{stroke:#c9d1da;stroke-width:.7}
.impossible{fill:var(--tint)}.curve .guess{stroke:#77818d;stroke-width:1.4;stroke-dasharray:5 5}
.curve .bound{fill:none;stroke:var(--accent);stroke-width:2.6;stroke-linejoin:round}
.caption{line-height:1.7}
.key{display:inline-block;width:1.5rem;height:0;vertical-align:middle;margin:0 .3rem 0 .5rem}
.key:first-child{margin-left:0}
.key.bound{border-top:3px solid var(--accent)}.key.guess{border-top:2px dashed #77818d}
.key.impossible{height:.8rem;background:var(--tint);border:1px solid #b9d3e3}
ul{padding-left:1.2rem;margin:.5rem 0}li{margin:.35rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.45rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
thead th{font-size:.85rem;color:var(--soft);font-weight:600}
.facts th{width:11.5rem;font-weight:600;padding-left:0}
.facts td{overflow-wrap:anywhere}
.limits li{margin:.6rem 0}
.lines{display:grid;grid-template-columns:2fr 1fr 2fr;gap:1.5rem;margin-top:3rem}
.line{display:block;border-bottom:1px solid var(--ink)}
.lines p{font-size:.85rem;color:var(--soft);margin:.3rem 0 0}
@media (max-width:44rem){main{margin:0;padding:1.3rem 1.1rem;border:0;border-radius:0}h1{font-size:1.4rem}
.cards{grid-template-columns:1fr 1fr}.two{grid-template-columns:1fr;gap:1.2rem}.lines{grid-template-columns:1fr;gap:2.6rem}
.facts,.facts tbody,.facts tr,.facts th,.facts td{display:block;width:auto}
.facts tr{border-bottom:1px solid var(--line);padding:.5rem 0}.facts th,.facts td{border:0;padding:0}
.facts th{color:var(--soft);font-size:.85rem}.bar text{font-size:22px}.bar .value{font-size:24px}
.curve text{font-size:15px}}
@media print{body{background:#fff;font-size:11pt}main{margin:0;padding:0;border:0;max-width:none}
section{break-inside:avoid}.banner,.tag,.fill,.rail,.impossible,.key{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
