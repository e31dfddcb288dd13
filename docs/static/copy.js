"use strict";
// A button on each block, which copies it. Of a session in a terminal, it copies what was typed.
addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const code = block.querySelector("pre");
    const typed = code.textContent.split("\n").filter(line => line.startsWith("$ "));
    const isSession = typed.length > 0 && block.parentElement.matches(".highlight-console");
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(isSession ? typed.map(line => line.slice(2)).join("\n") : code.textContent);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    });
    block.append(button);
  }
});
