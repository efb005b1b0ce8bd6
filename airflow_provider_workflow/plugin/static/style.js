// Airflow's own colors and sizes are CSS variables of its page, in both of its modes.

const color = (name) => `var(--chakra-colors-${name})`;

/** By the name of one of Airflow's palettes: a state of DAG runs, or a color. */
export const paint = (name) => ({ background: color(`${name}-subtle`), color: color(`${name}-fg`) });

const BORDER = `1px solid ${color("border")}`;
const [FG, MUTED, SOLID, BG] = ["fg", "fg-muted", "brand-solid", "bg"].map(color);

export const STYLE = `
.root{color:${FG};font-size:.875rem;line-height:1.25rem;padding:.75rem}
.root,.box,.root form,.root form label,.root dialog[open]{display:flex;flex-direction:column;gap:.75rem}
.root h2,.stat b{font-size:1.25rem;line-height:1.75rem;font-weight:600;outline:none;overflow-wrap:anywhere}
.root a{color:${color("fg-info")}}.root [role=alert] a{color:inherit}
.root :is(a:hover,[role=alert] a){text-decoration:underline}
.root :focus-visible:not(h2){outline:2px solid ${color("brand-focus-ring")}}
.root>:empty{margin-top:-.75rem}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1rem}
.line{display:flex;gap:.5rem;align-items:center;min-width:0}.push{margin-inline-start:auto}
.muted{color:${MUTED}}.small,.badge{font-size:.75rem;line-height:1rem}
.mono{font-family:var(--chakra-fonts-mono);font-size:.75rem}
.two{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:2;overflow:hidden}.tight{gap:.25rem}
.two,.root pre{overflow-wrap:anywhere}
.root td .tight{max-height:2.75rem;overflow:hidden}
.cut{overflow:hidden;text-overflow:ellipsis;display:block}
.cut,.badge,.btn{white-space:nowrap}
.badge{display:inline-block;border-radius:99px;padding:.125rem .5rem}
.scroll,.box,.stat,.btn,.root :is(input,select,dialog){border:${BORDER};border-radius:var(--chakra-radii-md)}
.btn{height:2rem;padding:0 .75rem;font-weight:500;cursor:pointer}
.btn:hover{background:${color("bg-muted")}}.btn:disabled{opacity:.6}
.root .main{background:${SOLID};color:${color("brand-contrast")}}
.root :is(input,select){height:2.25rem;padding:0 .625rem;background:${BG}}
.grow{flex:0 1 24rem}
.scroll{overflow:auto;max-height:max(18rem,calc(100vh - 12rem))}
.root table{border-collapse:separate;border-spacing:0;table-layout:fixed;width:100%;min-width:68rem}
.root th{position:sticky;top:0;z-index:1;background:${BG};text-align:start;font-weight:500;
  border-bottom:${BORDER};padding:.5rem .75rem}
.root .sort{font:inherit;text-align:inherit;cursor:pointer;white-space:nowrap}
.root .sort:hover{text-decoration:underline}
.root td{border-bottom:${BORDER};padding:0 .75rem;overflow:hidden}.root tbody tr{background:${BG}}
.root .odd{background:${color("bg-subtle")}}.root .gap td{border:0}
.root .num{text-align:end;font-variant-numeric:tabular-nums}
.box,.stat{padding:.5rem .75rem;overflow-wrap:anywhere}.box{gap:.375rem;align-items:flex-start}
.stat{min-width:7rem;align-self:stretch}.stat>:first-child{display:block}
.stat>:first-child::first-letter,.box>::first-letter,.root dt::first-letter{text-transform:uppercase}
.tabs{display:flex;border-bottom:${BORDER}}
.root .tabs a{color:inherit;padding:.5rem .75rem;border-bottom:2px solid transparent}
.root .tabs [aria-current]{border-color:${SOLID};font-weight:600}
.root dl{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:.5rem 1rem;
  overflow-wrap:anywhere}.root dt{color:${MUTED}}
.root dialog{margin:auto;padding:1.25rem;background:${color("bg-panel")};color:${FG};
  width:min(36rem,calc(100vw - 2rem));max-height:calc(100vh - 2rem)}
.root dialog::backdrop{background:#0008}
.root dialog{scroll-padding-bottom:4.5rem}.root dialog .end{position:sticky;bottom:-1.25rem;
  margin-bottom:-1.25rem;padding-block:.75rem 1.25rem;background:${color("bg-panel")}}
.root pre{white-space:pre-wrap;flex-shrink:0;padding:.5rem;max-height:18rem}
.root summary{cursor:pointer;color:${MUTED}}
.root form label{gap:.25rem;font-weight:500}.end{display:flex;justify-content:flex-end;gap:.5rem}
@media(max-width:40rem){.root{padding:.25rem}.bar:not(.tight){gap:.5rem}.stat{min-width:0}
  .root .wide{display:none}.root table{min-width:0}.root :is(th,td){padding-inline:.25rem}
  .root th{width:auto!important}.root th.num{width:4rem!important}.root th.mid{width:5.25rem!important}
  .root th.mid:last-child{width:6rem!important}.root :is(th,td .badge,.num .small){font-size:.6875rem}
  .root td .badge{padding:0 .25rem;border-radius:.5rem}
  .root td .tight{max-height:3.5rem;gap:.125rem}.root td .tight a{line-height:1rem}
  .root td .line{flex-wrap:wrap;gap:0}.root :is(td>.badge,td>div>.badge,td .cut,.sort){white-space:normal}
  .root td .cut{font-size:.75rem;line-height:1rem;max-height:3rem;overflow-wrap:anywhere}
  .root td .line .cut{white-space:nowrap}}
`.replace(/\.(?=[a-z])/g, ".wf-");
