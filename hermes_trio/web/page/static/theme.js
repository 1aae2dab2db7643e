// Runs before anything is drawn, so that a dark page does not flash.
document.documentElement.dataset.theme = localStorage.getItem("theme") || "system";
