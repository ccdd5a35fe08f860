// Stands in for Google's charts in pages that are opened without internet: every chart and table becomes text, so that
// a test can read its numbers.
(() => {
  class DataTable {
    constructor() { this.columns = []; this.rows = []; }
    addColumn(type, label) { this.columns.push(typeof type === 'object' ? type : {type, label}); }
    addRow(row) { this.rows.push(row); }
    addRows(rows) { this.rows.push(...rows); }
    getNumberOfColumns() { return this.columns.length; }
    getNumberOfRows() { return this.rows.length; }
    getColumnLabel(column) { return this.columns[column].label; }
    getValue(row, column) { return this.rows[row][column]; }
    getSortedRows() { return this.rows.map((_, row) => row); }
  }
  // What the pages call beside that changes looks only.
  for (const name of ['setCell', 'setColumnProperty', 'setProperty', 'setRowProperties', 'sort']) DataTable.prototype[name] = () => {};

  class DataView extends DataTable {
    constructor(table) { super(); this.columns = table.columns; this.rows = table.rows; }
    setColumns() {}
    setRows() {}
  }

  const shown = cell => (cell && typeof cell === 'object' ? cell.f ?? cell.v : cell);

  class Chart {
    constructor(element) { this.element = element; }
    draw(table) {
      const visible = table.columns.map((column, i) => [column, i]).filter(([column]) => !column.role);
      const lines = [visible.map(([column]) => column.label || ''),
                     ...table.rows.map(row => visible.map(([, i]) => shown(row[i])))];
      const text = document.createElement('pre');
      text.className = 'chart';
      text.style.cssText = 'font: 11px monospace; max-height: 300px; overflow: hidden; margin: 4px';
      text.textContent = lines.map(line => line.join(' | ')).join('\n');
      this.element.replaceChildren(text);
    }
    clearChart() { this.element.replaceChildren(); }
    getSelection() { return []; }
    setSelection() {}
    getImageURI() { return ''; }
    getChartLayoutInterface() {
      return {getChartAreaBoundingBox: () => ({left: 0, top: 0, width: 100, height: 100}),
              getHAxisValue: () => 0, getXLocation: () => 0};
    }
  }

  const visualization = {
    DataTable, DataView,
    events: {addListener: () => ({}), removeListener() {}, removeAllListeners() {}},
    arrayToDataTable(rows) {
      const table = new DataTable();
      rows[0].forEach(head => table.addColumn(typeof head === 'object' ? head : {label: head}));
      table.addRows(rows.slice(1));
      return table;
    },
  };
  for (const name of ['AreaChart', 'BarChart', 'ColumnChart', 'ComboChart', 'LineChart', 'PieChart', 'SteppedAreaChart',
                      'Table', 'Timeline']) visualization[name] = class extends Chart {};
  window.google = {charts: {load: async () => {}, safeLoad: async () => {}, setOnLoadCallback: call => call()}, visualization};
})();
