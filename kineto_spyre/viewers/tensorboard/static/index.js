// The page SPYRE REPORT: a list of the log directory's traces, and the report of the one that is chosen.
// TensorBoard loads this into a frame of its own and calls render(). Nothing is loaded from anywhere else.

const STYLE = `
  html, body { height: 100%; margin: 0 }
  body { display: flex; flex-direction: column; font: 14px/1.5 system-ui, sans-serif; background: #fff; color: #1c2024 }
  header { display: flex; gap: .8rem; align-items: center; padding: .5rem 1rem; border-bottom: 1px solid #d9d9e0 }
  select { font: inherit; min-width: 12rem; max-width: 70%; padding: .2rem }
  iframe { flex: 1; border: 0; width: 100% }
  p { margin: 2rem }
`;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export async function render() {
  document.head.append(element('style', STYLE));
  const answer = await fetch('./traces').catch(() => null);
  if (!answer || !answer.ok) {
    document.body.append(element('p', 'TensorBoard does not answer. Start it again, then reload this page.'));
    return;
  }
  const traces = await answer.json();
  if (!traces.length) {
    document.body.append(element('p', 'The log directory holds no trace (*.pt.trace.json or *.pt.trace.json.gz). ' +
      'Profile with tensorboard_trace_handler, then reload this page.'));
    return;
  }
  const header = element('header', '');
  const choice = element('select', '', {id: 'trace'});
  for (const trace of traces) choice.append(element('option', trace, {value: trace}));
  const alone = element('a', 'Open on a page of its own', {target: '_blank', rel: 'noreferrer'});
  const frame = element('iframe', '', {title: 'The report'});
  const show = () => {
    alone.href = frame.src = './report?trace=' + encodeURIComponent(choice.value);
  };
  choice.addEventListener('change', show);
  header.append(element('label', 'Trace', {for: 'trace'}), choice, alone);
  document.body.append(header, frame);
  show();
}
