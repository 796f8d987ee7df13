"use strict";
(() => {
  const form = document.querySelector("form.upload");
  const list = document.createElement("ul");
  list.setAttribute("aria-live", "polite");
  form.append(list);
  form.classList.add("drop");
  const queue = [];
  let current = null, stored = 0, failed = 0;

  const show = (name) => {
    const item = list.appendChild(document.createElement("li"));
    item.append(Object.assign(document.createElement("bdi"), { textContent: name }), " ");
    return item;
  };
  const end = (item, text, isError) => {
    item.querySelector("progress")?.remove();
    item.append(Object.assign(document.createElement("span"), { textContent: text }));
    item.classList.toggle("failed", isError);
    if (isError) failed += 1; else stored += 1;
  };
  const reason = (request) => {
    if (request.status === 412) return "exists already: tick “Replace existing files” to replace it";
    const isPlain = (request.getResponseHeader("Content-Type") || "").startsWith("text/plain");
    return isPlain ? request.responseText.trim().slice(0, 200) : `failed with status ${request.status}`;
  };
  const next = () => {
    current = queue.shift() ?? null;
    if (!current) {
      if (stored && !failed) location.reload();
      return;
    }
    const { file, item } = current;
    const bar = item.appendChild(Object.assign(document.createElement("progress"), { max: 1, value: 0 }));
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total) bar.value = event.loaded / event.total;
    };
    request.onload = () => {
      const isStored = request.status >= 200 && request.status < 300;
      end(item, isStored ? "uploaded" : reason(request), !isStored);
      next();
    };
    request.onerror = () => {
      end(item, "failed: the connection was lost", true);
      next();
    };
    request.open("PUT", "./" + encodeURIComponent(file.name));
    if (!form.elements.replace.checked) request.setRequestHeader("If-None-Match", "*");
    request.send(file);
  };
  const add = (files) => {
    for (const file of files) queue.push({ file, item: show(file.name) });
    if (!current) next();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add([...form.elements.file.files]);
    form.elements.file.value = "";
  });
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    form.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    form.classList.remove("over");
    const files = [];
    for (const entry of event.dataTransfer.items) {
      const file = entry.getAsFile();
      if (entry.webkitGetAsEntry?.()?.isDirectory) end(show(file.name), "is a folder: upload its files", true);
      else if (file) files.push(file);
    }
    add(files);
  });
  addEventListener("beforeunload", (event) => {
    if (current) event.preventDefault();
  });
})();
