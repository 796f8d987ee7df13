"use strict";
(() => {
  const input = document.querySelector("form.filter input[type=search]");
  // The server filters where the page does not hold all entries.
  if (!input || input.defaultValue !== "" || document.querySelector("nav.pages")) return;
  // The row of the parent folder has one cell.
  const rows = [...document.querySelectorAll("tbody tr")].filter((row) => row.cells.length > 1);
  const apply = () => {
    const text = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(text);
  };
  input.addEventListener("input", apply);
  apply();
})();
