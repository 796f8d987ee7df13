<?php
header('Content-Type: text/plain');
foreach (['SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'SERVER_NAME', 'PHP_SELF'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? '', "\n";
}
echo basename($_SERVER['SCRIPT_FILENAME']), "\n";
